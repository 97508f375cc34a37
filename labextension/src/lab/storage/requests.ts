import type { IJupyterServer } from '../../components/jupyterServer';
import { SandboxApi } from '../../components/sandboxApi';
import type { IBegunBuild, IBuild, IBuildProgress, ISecret, IStoredTemplate, IVolume } from '../../protocol/storage';

/** Seconds that a request for more of a build's log waits for it. */
const WAIT = 20;
const SIZES = { sizes: 'true' } as const;

/** The requests on what outlives sandboxes; each throws the error that the server answers with. */
export class StorageRequests {
  constructor(server: IJupyterServer) {
    this.api = new SandboxApi(server);
  }

  /** With their sizes, which the engine may have to measure first. */
  async templates(): Promise<readonly IStoredTemplate[]> {
    return (await this.api.get('/templates', { query: SIZES })).templates;
  }

  async renameTemplate(id: string, name: string): Promise<void> {
    await this.api.patch('/templates/{template_id}', { path: { template_id: id }, body: { name } });
  }

  /** `dependants`: ends the sandboxes that were made from it, before. */
  async removeTemplate(id: string, dependants: boolean): Promise<void> {
    const query = dependants ? ({ dependants: 'true' } as const) : {};
    await this.api.delete('/templates/{template_id}', { path: { template_id: id }, query });
  }

  build(name: string, dockerfile: string): Promise<IBegunBuild> {
    return this.api.post('/templates', { body: { name, dockerfile } });
  }

  buildProgress(build: IBuild, offset: number, signal: AbortSignal): Promise<IBuildProgress> {
    const query = { offset, wait: WAIT };
    return this.api.get('/templates/{template_id}/builds/{build_id}', { path: pathOf(build), query, signal });
  }

  async cancelBuild(build: IBuild): Promise<void> {
    await this.api.delete('/templates/{template_id}/builds/{build_id}', { path: pathOf(build) });
  }

  async volumes(): Promise<readonly IVolume[]> {
    return (await this.api.get('/volumes', { query: SIZES })).volumes;
  }

  async createVolume(name: string): Promise<void> {
    await this.api.post('/volumes', { body: { name } });
  }

  async removeVolume(id: string): Promise<void> {
    await this.api.delete('/volumes/{volume_id}', { path: { volume_id: id } });
  }

  async secrets(): Promise<readonly ISecret[]> {
    return (await this.api.get('/secrets')).secrets;
  }

  async createSecret(name: string, value: string): Promise<void> {
    await this.api.post('/secrets', { body: { name, value } });
  }

  async updateSecret(name: string, value: string): Promise<void> {
    await this.api.post('/secrets/{name}', { path: { name }, body: { value } });
  }

  async removeSecret(name: string): Promise<void> {
    await this.api.delete('/secrets/{name}', { path: { name } });
  }

  private readonly api: SandboxApi;
}

const pathOf = ({ templateID, buildID }: IBuild) => ({ template_id: templateID, build_id: buildID });

import { checkResponse, readJson } from '../../components/responses';
import type { IBegunBuild, IBuild, IBuildProgress, ISecret, IStoredTemplate, IVolume } from '../../protocol/storage';
import type { IJupyterServer } from '../../components/jupyterServer';

/** Seconds that a request for more of a build's log waits for it. */
const WAIT = 20;

/** The requests on what outlives sandboxes; each throws the error that the server answers with. */
export class StorageRequests {
  constructor(private readonly server: IJupyterServer) {}

  /** With their sizes, which the engine may have to measure first. */
  async templates(): Promise<readonly IStoredTemplate[]> {
    const answer = await this.server.request(['templates'], {}, { sizes: 'true' });
    return (await readJson<{ templates: IStoredTemplate[] }>(answer)).templates;
  }

  async renameTemplate(id: string, name: string): Promise<void> {
    await this.send('PATCH', ['templates', id], { name });
  }

  /** `dependants`: ends the sandboxes that were made from it, before. */
  async removeTemplate(id: string, dependants: boolean): Promise<void> {
    await checkResponse(await this.server.request(['templates', id], { method: 'DELETE' }, dependants ? { dependants: 'true' } : {}));
  }

  async build(name: string, dockerfile: string): Promise<IBegunBuild> {
    return readJson(await this.send('POST', ['templates'], { name, dockerfile }));
  }

  async buildProgress({ templateID, buildID }: IBegunBuild, offset: number, signal: AbortSignal): Promise<IBuildProgress> {
    const parts = ['templates', templateID, 'builds', buildID];
    return readJson(await this.server.request(parts, { signal }, { offset, wait: WAIT }));
  }

  async cancelBuild({ templateID, buildID }: IBuild): Promise<void> {
    await checkResponse(await this.server.request(['templates', templateID, 'builds', buildID], { method: 'DELETE' }));
  }

  async volumes(): Promise<readonly IVolume[]> {
    const answer = await this.server.request(['volumes'], {}, { sizes: 'true' });
    return (await readJson<{ volumes: IVolume[] }>(answer)).volumes;
  }

  async createVolume(name: string): Promise<void> {
    await this.send('POST', ['volumes'], { name });
  }

  async removeVolume(id: string): Promise<void> {
    await checkResponse(await this.server.request(['volumes', id], { method: 'DELETE' }));
  }

  async secrets(): Promise<readonly ISecret[]> {
    return (await readJson<{ secrets: ISecret[] }>(await this.server.request(['secrets']))).secrets;
  }

  async createSecret(name: string, value: string): Promise<void> {
    await this.send('POST', ['secrets'], { name, value });
  }

  async updateSecret(name: string, value: string): Promise<void> {
    await this.send('POST', ['secrets', name], { value });
  }

  async removeSecret(name: string): Promise<void> {
    await checkResponse(await this.server.request(['secrets', name], { method: 'DELETE' }));
  }

  private async send(method: string, parts: readonly string[], body: object): Promise<Response> {
    const init = { method, body: JSON.stringify(body), headers: { 'Content-Type': 'application/json' } };
    return checkResponse(await this.server.request(parts, init));
  }
}

import { SandboxError } from '../protocol/errors';
import type { IEntryInfo, IFilesystemEvent, IReading, ISandboxMetric } from '../protocol/runtime';
import { toReading } from '../protocol/runtime';
import type { ITerminalRequest } from '../protocol/terminal';
import { trans } from './translation';
import type { IJupyterServer } from './jupyterServer';
import { bytesAtMost, checkResponse, readJson } from './responses';
import { openTerminalSocket } from './terminals/terminalSocket';
import { stateFrom } from './sandboxState';
import type { Dispose, ISandboxTransport, SandboxState, ITerminalChannel, ITerminalListener } from './transport';
import { uploadInPieces } from './files/piecewiseUpload';
import type { IUploadOptions } from './files/upload';

/** The most entries that one request lists. */
const PAGE = 2000;
/** Larger files are uploaded in pieces, so that a lost connection costs little. */
const WHOLE_UPLOAD = 64 * 1024 * 1024;

/** The first entries of a directory that match a filter. */
export interface IEntryPage {
  readonly entries: readonly IEntryInfo[];
  readonly total: number;
  readonly matching: number;
}

/** Reaches a sandbox through the routes of the Jupyter server, independent of any kernel. */
export class ServerTransport implements ISandboxTransport {
  constructor(
    private readonly server: IJupyterServer,
    private readonly sandboxId: string
  ) {}

  async list(path: string): Promise<readonly IEntryInfo[]> {
    const body = await this.call<{ entries?: IEntryInfo[] }>('ListDir', { path, depth: 1 });
    return body.entries ?? [];
  }

  /** Lists up to `limit` entries whose name holds `filter`, sorted by the server: folders first, by name. */
  async listFirst(path: string, limit: number, filter: string): Promise<IEntryPage> {
    const entries: IEntryInfo[] = [];
    for (;;) {
      const query = { path, filter, offset: entries.length, limit: Math.min(limit - entries.length, PAGE) };
      const page = await readJson<IEntryPage>(await this.server.request(this.parts('listing'), {}, query));
      entries.push(...page.entries);
      if (page.entries.length === 0 || entries.length >= Math.min(limit, page.matching)) {
        return { ...page, entries };
      }
    }
  }

  async stat(path: string): Promise<IEntryInfo> {
    return (await this.call<{ entry: IEntryInfo }>('Stat', { path })).entry;
  }

  async read(path: string): Promise<Uint8Array> {
    const response = await checkResponse(await this.server.request(this.parts('files'), {}, { path }));
    return new Uint8Array(await response.arrayBuffer());
  }

  /** Like `read`; `null` if the file has more than `most` bytes, whatever it had when it was listed. */
  async readAtMost(path: string, most: number): Promise<Uint8Array | null> {
    return bytesAtMost(await this.server.request(this.parts('files'), {}, { path }), most);
  }

  /** Like `read`, for contents that the browser may keep on its disk. */
  async readBlob(path: string, signal: AbortSignal): Promise<Blob> {
    return (await checkResponse(await this.server.request(this.parts('files'), { signal }, { path }))).blob();
  }

  async write(path: string, bytes: Uint8Array): Promise<void> {
    const init = {
      method: 'POST',
      body: new Uint8Array(bytes),
      headers: { 'Content-Type': 'application/octet-stream' }
    };
    await checkResponse(await this.server.request(this.parts('files'), init, { path }));
  }

  async upload(path: string, file: Blob, options: IUploadOptions): Promise<void> {
    const send = async (to: string, piece: Blob, piecewise: IUploadOptions) => {
      await this.server.upload(this.parts('files'), { path: to }, piece, piecewise);
    };
    if (!(file instanceof File) || file.size <= WHOLE_UPLOAD) {
      await send(path, file, options);
      return;
    }
    const target = {
      send,
      list: (folder: string) => this.list(folder),
      remove: (folder: string) => this.remove(folder),
      compose: (sources: readonly string[], destination: string, size: number) => this.compose(sources, destination, size)
    };
    await uploadInPieces(target, path, file, options);
  }

  /** Joins files of the sandbox to one and removes them. */
  private async compose(sources: readonly string[], destination: string, size: number): Promise<void> {
    const init = {
      method: 'POST',
      body: JSON.stringify({ sources, destination, size }),
      headers: { 'Content-Type': 'application/json' }
    };
    await checkResponse(await this.server.request(this.parts('files', 'compose'), init));
  }

  async makeDir(path: string): Promise<void> {
    await this.call('MakeDir', { path });
  }

  async move(source: string, destination: string): Promise<void> {
    await this.call('Move', { source, destination });
  }

  async remove(path: string): Promise<void> {
    await this.call('Remove', { path });
  }

  /** The URL for downloading a file. */
  fileUrl(path: string): string {
    return this.server.url(this.parts('files'), { path });
  }

  /** The URL for downloading a folder as a zip. */
  archiveUrl(path: string): string {
    return this.server.url(this.parts('archive'), { path });
  }

  async metrics(): Promise<IReading> {
    return readJson(await this.server.request(this.parts('metrics')));
  }

  async state(): Promise<SandboxState> {
    return stateFrom(async () => (await readJson<{ state: SandboxState }>(await this.server.request(this.parts()))).state);
  }

  /** The stored readings between two Unix times, oldest first. */
  async history(start: number, end: number): Promise<IReading[]> {
    const parts = this.parts('metrics', 'history');
    const response = await this.server.request(parts, {}, { start, end });
    return (await readJson<ISandboxMetric[]>(response)).map(toReading);
  }

  watch(path: string, listener: (event: IFilesystemEvent) => void, onEnd?: () => void): Dispose {
    const socket = this.server.openSocket(this.parts('watch'), { path });
    socket.addEventListener('message', event => {
      const frame = JSON.parse(String(event.data)) as Partial<IFilesystemEvent>;
      if (frame.name !== undefined && frame.type !== undefined) {
        listener({ name: frame.name, type: frame.type });
      }
    });
    let isOver = false;
    socket.addEventListener('close', () => {
      if (!isOver) {
        isOver = true;
        onEnd?.();
      }
    });
    return () => {
      isOver = true;
      socket.close();
    };
  }

  openTerminal(request: ITerminalRequest, listener: ITerminalListener): ITerminalChannel {
    const socket = this.server.openSocket(this.parts('terminal'), { ...request });
    return openTerminalSocket(socket, listener);
  }

  dispose(): void {
    // Callers close the sockets they opened.
  }

  private async call<T>(method: string, body: object): Promise<T> {
    const init = {
      method: 'POST',
      body: JSON.stringify(body),
      headers: { 'Content-Type': 'application/json' }
    };
    const parts = this.parts('rpc', 'filesystem.Filesystem', method);
    return readJson<T>(await this.server.request(parts, init));
  }

  private parts(...rest: string[]): string[] {
    if (this.sandboxId === '') {
      throw new SandboxError('invalid_argument', trans.__('No sandbox is chosen.'));
    }
    return ['sandboxes', this.sandboxId, ...rest];
  }
}

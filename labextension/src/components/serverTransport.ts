import { SandboxError } from '../protocol/errors';
import type { IEntryInfo, IFilesystemEvent, IReading } from '../protocol/runtime';
import { toReading } from '../protocol/runtime';
import type { ITerminalRequest } from '../protocol/terminal';
import { trans } from './translation';
import type { IJupyterServer } from './jupyterServer';
import { bytesAtMost } from './responses';
import { SandboxApi } from './sandboxApi';
import { openTerminalSocket } from './terminals/terminalSocket';
import { stateFrom } from './sandboxState';
import type { Dispose, ISandboxTransport, SandboxState, ITerminalChannel, ITerminalListener } from './transport';
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
    server: IJupyterServer,
    private readonly sandboxId: string
  ) {
    this.api = new SandboxApi(server);
  }

  async list(path: string): Promise<readonly IEntryInfo[]> {
    const body = { path, depth: 1 };
    return (await this.api.post('/sandboxes/{sandbox_id}/rpc/filesystem.Filesystem/ListDir', { path: this.path, body })).entries ?? [];
  }

  /** Lists up to `limit` entries whose name holds `filter`, sorted by the server: folders first, by name. */
  async listFirst(path: string, limit: number, filter: string): Promise<IEntryPage> {
    const entries: IEntryInfo[] = [];
    for (;;) {
      const query = { path, filter, offset: entries.length, limit: Math.min(limit - entries.length, PAGE) };
      const page = await this.api.get('/sandboxes/{sandbox_id}/listing', { path: this.path, query });
      entries.push(...page.entries);
      if (page.entries.length === 0 || entries.length >= Math.min(limit, page.matching)) {
        return { ...page, entries };
      }
    }
  }

  async stat(path: string): Promise<IEntryInfo> {
    return (await this.api.post('/sandboxes/{sandbox_id}/rpc/filesystem.Filesystem/Stat', { path: this.path, body: { path } })).entry;
  }

  async read(path: string, signal?: AbortSignal): Promise<Uint8Array> {
    return new Uint8Array(await (await this.file(path, signal)).arrayBuffer());
  }

  /** Like `read`; `null` if the file has more than `most` bytes, whatever it had when it was listed. */
  async readAtMost(path: string, most: number): Promise<Uint8Array | null> {
    return bytesAtMost(await this.file(path), most);
  }

  /** Like `read`, for contents that the browser may keep on its disk. */
  async readBlob(path: string, signal: AbortSignal): Promise<Blob> {
    return (await this.file(path, signal)).blob();
  }

  async write(path: string, bytes: Uint8Array): Promise<void> {
    await this.api.send('/sandboxes/{sandbox_id}/files', { path: this.path, query: { path } }, new Uint8Array(bytes));
  }

  async upload(path: string, file: Blob, options: IUploadOptions): Promise<void> {
    const send = async (to: string, piece: Blob, piecewise: IUploadOptions) => {
      await this.api.upload('/sandboxes/{sandbox_id}/files', { path: this.path, query: { path: to } }, piece, piecewise);
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
    const { uploadInPieces } = await import('./files/piecewiseUpload');
    await uploadInPieces(target, path, file, options);
  }

  /** Joins files of the sandbox to one and removes them. */
  private async compose(sources: readonly string[], destination: string, size: number): Promise<void> {
    await this.api.post('/sandboxes/{sandbox_id}/files/compose', { path: this.path, body: { sources, destination, size } });
  }

  async makeDir(path: string): Promise<void> {
    await this.api.post('/sandboxes/{sandbox_id}/rpc/filesystem.Filesystem/MakeDir', { path: this.path, body: { path } });
  }

  async move(source: string, destination: string): Promise<void> {
    await this.api.post('/sandboxes/{sandbox_id}/rpc/filesystem.Filesystem/Move', { path: this.path, body: { source, destination } });
  }

  async remove(path: string): Promise<void> {
    await this.api.post('/sandboxes/{sandbox_id}/rpc/filesystem.Filesystem/Remove', { path: this.path, body: { path } });
  }

  /** The URL for downloading a file. */
  fileUrl(path: string): string {
    return this.api.url('/sandboxes/{sandbox_id}/files', { path: this.path, query: { path } });
  }

  /** The URL for downloading a folder as a zip. */
  archiveUrl(path: string): string {
    return this.api.url('/sandboxes/{sandbox_id}/archive', { path: this.path, query: { path } });
  }

  async metrics(): Promise<IReading> {
    return this.api.get('/sandboxes/{sandbox_id}/metrics', { path: this.path });
  }

  async state(): Promise<SandboxState> {
    return stateFrom(async () => (await this.api.get('/sandboxes/{sandbox_id}', { path: this.path })).state);
  }

  /** The stored readings between two Unix times, oldest first. */
  async history(start: number, end: number): Promise<IReading[]> {
    return (await this.api.get('/sandboxes/{sandbox_id}/metrics/history', { path: this.path, query: { start, end } })).map(toReading);
  }

  watch(path: string, listener: (event: IFilesystemEvent) => void, onEnd?: () => void): Dispose {
    const socket = this.api.socket('/sandboxes/{sandbox_id}/watch', { path: this.path, query: { path } });
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
    const socket = this.api.socket('/sandboxes/{sandbox_id}/terminal', { path: this.path, query: { ...request } });
    return openTerminalSocket(socket, listener);
  }

  dispose(): void {
    // Callers close the sockets they opened.
  }

  private file(path: string, signal?: AbortSignal): Promise<Response> {
    return this.api.response('get', '/sandboxes/{sandbox_id}/files', { path: this.path, query: { path }, signal });
  }

  private get path(): { readonly sandbox_id: string } {
    if (this.sandboxId === '') {
      throw new SandboxError('invalid_argument', trans.__('No sandbox is chosen.'));
    }
    return { sandbox_id: this.sandboxId };
  }

  private readonly api: SandboxApi;
}

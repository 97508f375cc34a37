import type { Dispose, ISandboxTransport, SandboxState, ITerminalChannel, ITerminalListener } from '../src/components/transport';
import type { IUploadOptions } from '../src/components/files/upload';
import { SandboxError } from '../src/protocol/errors';
import type { IEntryInfo, IFilesystemEvent, IReading } from '../src/protocol/runtime';
import type { ITerminalRequest } from '../src/protocol/terminal';

/** A terminal that the test drives by hand. */
export class FakeTerminal implements ITerminalChannel {
  constructor(
    readonly request: ITerminalRequest,
    readonly listener: ITerminalListener
  ) {}

  send(data: Uint8Array): void {
    this.typed += new TextDecoder().decode(data);
  }

  resize(cols: number, rows: number): void {
    this.sizes.push([cols, rows]);
  }

  dispose(): void {
    this.disposed = true;
  }

  typed = '';
  sizes: [number, number][] = [];
  disposed = false;
}

/** A sandbox in memory: files by path, terminals driven by the test. */
export class FakeTransport implements ISandboxTransport {
  constructor(readonly files = new Map<string, string | null>()) {}

  list(path: string): Promise<readonly IEntryInfo[]> {
    if (path !== '/' && this.files.get(path) !== null) {
      return Promise.reject(new SandboxError('not_found', `${path} does not exist`));
    }
    const prefix = path === '/' ? '/' : `${path}/`;
    const inside = [...this.files.keys()].filter(
      name => name !== path && name.startsWith(prefix) && !name.slice(prefix.length).includes('/')
    );
    return Promise.resolve(inside.map(name => this.entry(name)));
  }

  async listFirst(path: string, limit: number, filter: string) {
    const all = await this.list(path);
    const matching = all.filter(({ name }) => name.includes(filter));
    return { entries: matching.slice(0, limit), total: all.length, matching: matching.length };
  }

  stat(path: string): Promise<IEntryInfo> {
    return this.files.has(path)
      ? Promise.resolve(this.entry(path))
      : Promise.reject(new SandboxError('not_found', `${path} does not exist`));
  }

  read(path: string): Promise<Uint8Array> {
    return Promise.resolve(new TextEncoder().encode(this.files.get(path) ?? ''));
  }

  write(path: string, bytes: Uint8Array): Promise<void> {
    this.files.set(path, new TextDecoder().decode(bytes));
    return Promise.resolve();
  }

  async upload(path: string, file: Blob, options: IUploadOptions): Promise<void> {
    options.signal?.throwIfAborted();
    await this.write(path, new Uint8Array(await file.arrayBuffer()));
  }

  makeDir(path: string): Promise<void> {
    this.files.set(path, null);
    return Promise.resolve();
  }

  move(source: string, destination: string): Promise<void> {
    this.files.set(destination, this.files.get(source) ?? null);
    this.files.delete(source);
    return Promise.resolve();
  }

  remove(path: string): Promise<void> {
    this.files.delete(path);
    return Promise.resolve();
  }

  watch(_path: string, listener: (event: IFilesystemEvent) => void, onEnd?: () => void): Dispose {
    this.watchers.set(listener, onEnd);
    return () => {
      this.watchers.delete(listener);
    };
  }

  get watches(): number {
    return this.watchers.size;
  }

  /** Tells the watchers that an entry was written. */
  change(name: string): void {
    this.watchers.forEach((_, listener) => {
      listener({ name, type: 'EVENT_TYPE_WRITE' });
    });
  }

  /** Ends all watches, as a pause does. */
  endWatches(): void {
    const ends = [...this.watchers.values()];
    this.watchers.clear();
    ends.forEach(end => end?.());
  }

  metrics(): Promise<IReading> {
    return this.reading === null
      ? Promise.reject(new SandboxError('unavailable', 'The sandbox is gone.'))
      : Promise.resolve(this.reading);
  }

  state(): Promise<SandboxState> {
    return Promise.resolve(this.currentState);
  }

  openTerminal(request: ITerminalRequest, listener: ITerminalListener): ITerminalChannel {
    const terminal = new FakeTerminal(request, listener);
    this.terminals.push(terminal);
    return terminal;
  }

  /** The terminal that was opened last. */
  terminal(): FakeTerminal {
    const terminal = this.terminals.at(-1);
    if (!terminal) {
      throw new Error('no terminal was opened');
    }
    return terminal;
  }

  async readBlob(path: string): Promise<Blob> {
    return new Blob([new Uint8Array(await this.read(path))]);
  }

  fileUrl(path: string): string {
    return `files?path=${path}`;
  }

  archiveUrl(path: string): string {
    return `archive?path=${path}`;
  }

  dispose(): void {
    this.terminals.length = 0;
  }

  private entry(path: string): IEntryInfo {
    const content = this.files.get(path);
    return {
      name: path.slice(path.lastIndexOf('/') + 1),
      path,
      type: content === null ? 'FILE_TYPE_DIRECTORY' : 'FILE_TYPE_FILE',
      size: String(content?.length ?? 0),
      modifiedTime: '2026-01-02T03:04:05Z'
    };
  }

  currentState: SandboxState = 'running';
  /** What `metrics` answers; it fails without one. */
  reading: IReading | null = null;
  readonly terminals: FakeTerminal[] = [];
  private readonly watchers = new Map<(event: IFilesystemEvent) => void, (() => void) | undefined>();
}

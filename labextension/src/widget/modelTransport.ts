import type { AnyModel } from '@anywidget/types';

import { stateFrom } from '../components/sandboxState';
import { trans } from '../components/translation';
import type { Dispose, ISandboxTransport, SandboxState, ITerminalChannel, ITerminalListener } from '../components/transport';
import type { IUploadOptions } from '../components/files/upload';
import type { CommRequest, ICommReply, ICommResults } from '../protocol/comm';
import { errorFrom, SandboxError } from '../protocol/errors';
import type { IEntryInfo, IFilesystemEvent, IReading } from '../protocol/runtime';
import type { ITerminalRequest, ITerminalStarted } from '../protocol/terminal';

type Buffers = readonly DataView[];

interface IWaiter {
  resolve(reply: ICommReply, buffers: Buffers): void;
  reject(reason: Error): void;
}

/** Milliseconds between two refreshes of a watched directory: the comm has no watch. */
const WATCH_INTERVAL = 5000;

/** Reaches a sandbox over the widget's comm; the kernel sends the HTTP requests. */
export class ModelTransport implements ISandboxTransport {
  constructor(private readonly model: AnyModel) {
    model.on('msg:custom', this.onMessage);
  }

  async list(path: string): Promise<readonly IEntryInfo[]> {
    const { ok } = await this.call({ op: 'list', path });
    return (ok as Partial<ICommResults['list']>).entries ?? [];
  }

  /** The kernel answers with the whole file, so there is no progress; an answer that is not wanted any more is dropped. */
  async read(path: string, signal?: AbortSignal): Promise<Uint8Array> {
    const { buffers } = await this.call({ op: 'read', path }, undefined, signal);
    return bytesOf(buffers);
  }

  async write(path: string, bytes: Uint8Array): Promise<void> {
    await this.call({ op: 'write', path }, bytes);
  }

  /** Sends the file in one message, so there is no progress, and no cancellation once it is sent. */
  async upload(path: string, file: Blob, { signal }: IUploadOptions): Promise<void> {
    const bytes = new Uint8Array(await file.arrayBuffer());
    signal?.throwIfAborted();
    await this.write(path, bytes);
  }

  async makeDir(path: string): Promise<void> {
    await this.call({ op: 'make_dir', path });
  }

  async move(source: string, destination: string): Promise<void> {
    await this.call({ op: 'move', source, destination });
  }

  async remove(path: string): Promise<void> {
    await this.call({ op: 'remove', path });
  }

  async metrics(): Promise<IReading> {
    return (await this.call({ op: 'metrics' })).ok as IReading;
  }

  async state(): Promise<SandboxState> {
    return stateFrom(async () => ((await this.call({ op: 'state' })).ok as ICommResults['state']).state);
  }

  watch(path: string, listener: (event: IFilesystemEvent) => void): Dispose {
    const timer = setInterval(() => {
      if (document.visibilityState === 'visible') {
        listener({ name: path, type: 'EVENT_TYPE_WRITE' });
      }
    }, WATCH_INTERVAL);
    return () => {
      clearInterval(timer);
    };
  }

  openTerminal(request: ITerminalRequest, listener: ITerminalListener): ITerminalChannel {
    const terminal = this.post({ op: 'terminal_open', ...request });
    this.terminals.set(terminal, listener);
    this.waiters.set(terminal, {
      resolve: reply => listener.onStart?.(reply.ok as ITerminalStarted),
      reject: reason => {
        this.terminals.delete(terminal);
        listener.onClose(reason instanceof SandboxError ? reason : null);
      }
    });
    return {
      send: data => void this.post({ op: 'terminal_input', terminal }, data),
      resize: (cols, rows) => void this.post({ op: 'terminal_resize', terminal, cols, rows }),
      dispose: () => {
        this.terminals.delete(terminal);
        this.waiters.delete(terminal);
        this.post({ op: 'terminal_close', terminal });
      }
    };
  }

  dispose(): void {
    this.model.off('msg:custom', this.onMessage);
    for (const waiter of this.waiters.values()) {
      waiter.reject(new SandboxError('canceled', trans.__('The view was closed.')));
    }
    this.waiters.clear();
    this.terminals.clear();
  }

  private call(request: CommRequest, bytes?: Uint8Array, signal?: AbortSignal): Promise<{ ok: unknown; buffers: Buffers }> {
    signal?.throwIfAborted();
    const id = this.post(request, bytes);
    return new Promise((resolve, reject) => {
      signal?.addEventListener('abort', () => {
        this.waiters.delete(id);
        reject(new DOMException(trans.__('The transfer was cancelled.'), 'AbortError'));
      });
      this.waiters.set(id, {
        resolve: (reply, buffers) => {
          resolve({ ok: reply.ok ?? {}, buffers });
        },
        reject
      });
    });
  }

  /** Sends a message with a sequence number, since two kernel threads may deliver messages out of order. */
  private post(request: CommRequest, bytes?: Uint8Array): number {
    const id = ++this.counter;
    const buffers = bytes === undefined ? undefined : [new Uint8Array(bytes).buffer];
    this.model.send({ ...request, id, view: this.view, seq: this.seq++ }, undefined, buffers);
    return id;
  }

  private readonly onMessage = (reply: ICommReply, buffers: Buffers): void => {
    if (reply.view !== undefined && reply.view !== this.view) {
      return;
    }
    if (reply.event !== undefined) {
      this.onEvent(reply, buffers);
      return;
    }
    const waiter = this.waiters.get(reply.id ?? 0);
    this.waiters.delete(reply.id ?? 0);
    if (reply.error) {
      waiter?.reject(errorFrom(reply.error, trans.__('The kernel could not do that.')));
    } else {
      waiter?.resolve(reply, buffers);
    }
  };

  private onEvent(reply: ICommReply, buffers: Buffers): void {
    const terminal = reply.terminal ?? 0;
    const listener = this.terminals.get(terminal);
    if (!listener) {
      return;
    }
    if (reply.event === 'terminal_data') {
      listener.onData(bytesOf(buffers), reply.sequence ?? 0);
      return;
    }
    this.terminals.delete(terminal);
    if (reply.event === 'terminal_exit') {
      listener.onExit(reply.exit ?? { code: -1 });
    } else {
      listener.onClose(errorFrom(reply.error, trans.__('The terminal failed.')));
    }
  }

  private readonly view = crypto.randomUUID?.() ?? String(Math.random()).slice(2);
  private seq = 0;
  private counter = 0;
  private readonly waiters = new Map<number, IWaiter>();
  private readonly terminals = new Map<number, ITerminalListener>();
}

function bytesOf(buffers: Buffers): Uint8Array {
  const view = buffers[0];
  return view === undefined ? new Uint8Array() : new Uint8Array(view.buffer, view.byteOffset, view.byteLength);
}

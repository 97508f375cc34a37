import type { IEntryInfo, IFilesystemEvent, IReading } from '../protocol/runtime';
import type { SandboxError } from '../protocol/errors';
import type { IUploadOptions } from './files/upload';
import type { ITerminalExit, ITerminalRequest, ITerminalShown, ITerminalStarted } from '../protocol/terminal';

/** Ends a subscription. */
export type Dispose = () => void;

/** Receives the events of one terminal channel. */
export interface ITerminalListener {
  /** The process is known; `sequence` is the number of the first byte that follows. */
  onStart?(started: ITerminalStarted): void;
  /** The name of the terminal, or who looks at it, has changed. */
  onShown?(shown: ITerminalShown): void;
  /** `sequence` counts the bytes that the terminal produced before these. */
  onData(data: Uint8Array, sequence: number): void;
  /** The process ended; nothing follows. */
  onExit(exit: ITerminalExit): void;
  /** The connection is gone although the process may go on; nothing follows. */
  onClose(reason: SandboxError | null): void;
}

/** A duplex byte stream bound to one terminal. */
export interface ITerminalChannel {
  send(data: Uint8Array): void;
  resize(cols: number, rows: number): void;
  /** Stops listening; the process goes on. */
  dispose(): void;
}

/** The state of a sandbox; one that is not known any more has ended. */
export type SandboxState = 'running' | 'paused' | 'ended';

/** Gives a view access to one sandbox, through the Jupyter server or through the widget's kernel. */
export interface ISandboxTransport {
  list(path: string): Promise<readonly IEntryInfo[]>;
  /** Rejects with an `AbortError` when `signal` is aborted. */
  read(path: string, signal?: AbortSignal): Promise<Uint8Array>;
  write(path: string, bytes: Uint8Array): Promise<void>;
  /** Like `write`, with progress and cancellation for large files. */
  upload(path: string, file: Blob, options: IUploadOptions): Promise<void>;
  makeDir(path: string): Promise<void>;
  move(source: string, destination: string): Promise<void>;
  remove(path: string): Promise<void>;
  /** The URL for downloading a file; absent where the page cannot reach the server. */
  fileUrl?(path: string): string;
  /** The URL for downloading a folder as a zip; absent where the page cannot reach the server. */
  archiveUrl?(path: string): string;
  /** Calls `listener` for changes in the directory `path`, and `onEnd` once if the watch ends by itself. */
  watch(path: string, listener: (event: IFilesystemEvent) => void, onEnd?: () => void): Dispose;
  metrics(): Promise<IReading>;
  state(): Promise<SandboxState>;
  openTerminal(request: ITerminalRequest, listener: ITerminalListener): ITerminalChannel;
  dispose(): void;
}

/**
 * The messages between a widget's front end and its kernel side.
 *
 * Front to kernel: `{view, seq, op, id, ...}`. `view` names this view of the model, `seq` counts its
 * messages from 0: two kernel threads may deliver them, so the kernel side puts them back in order.
 * Kernel to front: every view of a model gets every message, so answers and events repeat `view`
 * where the kernel side knows it; a view ignores what names another one.
 */
import type { IEntryInfo, IReading } from './runtime';
import type { ITerminalExit, ITerminalRequest, ITerminalSize } from './terminal';

export type CommRequest =
  | { readonly op: 'list'; readonly path: string }
  | { readonly op: 'read'; readonly path: string }
  /** The bytes are buffer 0. */
  | { readonly op: 'write'; readonly path: string }
  | { readonly op: 'make_dir'; readonly path: string }
  | { readonly op: 'move'; readonly source: string; readonly destination: string }
  | { readonly op: 'remove'; readonly path: string }
  | { readonly op: 'metrics' }
  | { readonly op: 'state' }
  /** `id` is from now on the terminal's id in every other terminal message. */
  | ({ readonly op: 'terminal_open' } & ITerminalRequest)
  /** The bytes are buffer 0. */
  | { readonly op: 'terminal_input'; readonly terminal: number }
  | ({ readonly op: 'terminal_resize'; readonly terminal: number } & ITerminalSize)
  /** Stops listening; the process in the sandbox goes on. */
  | { readonly op: 'terminal_close'; readonly terminal: number };

/** The content of `ok` for each operation; the bytes of `read` are buffer 0 of the answer. */
export interface ICommResults {
  readonly list: { readonly entries: readonly IEntryInfo[] };
  readonly metrics: IReading;
  readonly state: { readonly state: 'running' | 'paused' };
  readonly terminal_open: { readonly pid: number; readonly sequence: number };
}

export interface ICommReply {
  readonly view?: string;
  readonly id?: number;
  readonly ok?: unknown;
  readonly error?: { readonly code: string; readonly message: string };
  readonly event?: 'terminal_data' | 'terminal_exit' | 'terminal_error' | 'refresh';
  readonly terminal?: number;
  /** Of the first byte of buffer 0, with `terminal_data`. */
  readonly sequence?: number;
  readonly exit?: ITerminalExit;
}

/** The text frames of the terminal WebSocket; binary frames are terminal input and output. */

import type { NamedTerminal } from './api';

export interface ITerminalStarted {
  readonly pid: number;
  /** The sequence number of the first byte that follows. */
  readonly sequence: number;
}

export interface ITerminalExit {
  readonly code: number;
  readonly status?: string;
}

/** A terminal's name, empty for none, and its viewers, as the server knows them. */
export type ITerminalShown = Pick<NamedTerminal, 'name' | 'viewers'>;

export type ServerFrame =
  | ITerminalStarted
  | ITerminalShown
  | { readonly exit: ITerminalExit }
  | { readonly error: { readonly code: string; readonly message: string } };

export interface ITerminalSize {
  readonly cols: number;
  readonly rows: number;
}

/**
 * Requests a new terminal, or with `pid` a running one, from byte `since` on.
 *
 * A running terminal keeps its size without one here.
 */
export interface ITerminalRequest extends Partial<ITerminalSize> {
  readonly pid?: number;
  readonly since?: number;
  /** The directory in which a new shell starts. */
  readonly cwd?: string;
  /** Only looks: the server takes no keys. */
  readonly readOnly?: 'true';
}

/** The records of `sbx/api` that look into one sandbox: its log, processes, ports and changes. */

export type LogLevel = 'debug' | 'info' | 'warn' | 'error';

/** One entry of a sandbox's log. */
export interface ILogEntry {
  /** RFC 3339. */
  readonly timestamp: string;
  readonly message: string;
  readonly level: LogLevel;
  readonly fields?: Readonly<Record<string, string>>;
}

/** A path that differs from the template or a snapshot. */
export interface IChange {
  readonly path: string;
  readonly change: 'added' | 'changed' | 'deleted';
  readonly type: 'file' | 'directory' | 'symlink' | 'other';
  /** In bytes, of files. */
  readonly size: number;
}

export interface IDiff {
  readonly changes: readonly IChange[];
  /** Whether there are more changes than are listed. */
  readonly truncated: boolean;
}

/** One process of a sandbox, as the kernel shows it. */
export interface IProcess {
  /** Its id inside the sandbox. */
  readonly pid: number;
  /** Its parent's id inside; none for a process whose parent is outside. */
  readonly parent?: number | null;
  readonly name?: string;
  /** Of a process that a client started: the program, and in `args` its arguments without it. */
  readonly cmd?: string;
  readonly args?: readonly string[];
  /** One letter of proc(5), such as `R`, `S`, `T` or `Z`. */
  readonly state?: string;
  /** Of one processor. */
  readonly cpuPct?: number;
  readonly memoryBytes?: number;
  readonly threads?: number;
  readonly ageSeconds?: number;
}

/** A TCP port on which a program of a sandbox listens. */
export interface IListeningPort {
  readonly port: number;
  readonly address: string;
  readonly program?: string | null;
  readonly pid?: number | null;
}

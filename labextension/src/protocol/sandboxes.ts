/** The records of `sbx/api`: sandboxes, the engine behind them and how it isolates. */

export type SandboxState = 'running' | 'paused';

/** One sandbox as the list shows it. */
export interface ISandbox {
  readonly sandboxID: string;
  readonly templateID: string;
  readonly state: SandboxState;
  /** RFC 3339 times. */
  readonly startedAt: string;
  readonly endAt: string;
  readonly cpuCount: number;
  readonly memoryMB: number;
  readonly diskSizeMB?: number;
  /** The name of the template, when it has one. */
  readonly alias?: string;
  readonly metadata?: Readonly<Record<string, string>>;
}

/** What a new sandbox is made with; everything has a default at the server. */
export interface INewSandbox {
  readonly template?: string;
  /** Seconds. */
  readonly timeout?: number;
  readonly name?: string;
  readonly metadata?: Readonly<Record<string, string>>;
  readonly envs?: Readonly<Record<string, string>>;
}

/** What would make the isolation stronger, and how to get it. */
export interface IMissing {
  readonly what: string;
  readonly remedy: string;
}

export interface IIsolation {
  /** "namespaces", "landlock" or "none". */
  readonly tier: string;
  /** "root-mapped", "subordinate" or "virtual". */
  readonly users?: string;
  /** memory, cpu, processes, disk: what enforces the limit, or "none". */
  readonly limits?: Readonly<Record<string, string>>;
  readonly freezer?: string;
  readonly reflink?: boolean;
  readonly missing?: readonly IMissing[];
}

export interface IEngine {
  readonly state: 'stopped' | 'starting' | 'running' | 'failed' | 'remote';
  readonly message?: string;
}

/** The answer of `sbx/api/info`. */
export interface IServerInfo {
  readonly version: string;
  readonly engine: IEngine;
  readonly isolation: IIsolation | null;
  readonly url_kind?: 'bundled' | 'configured';
}

/** A live terminal that the server started. */
export interface ITerminalInfo {
  readonly pid: number;
  readonly cmd?: string;
  readonly tag?: string | null;
}

/** The name people gave to the sandbox, else its id. */
export function displayName(sandbox: ISandbox): string {
  const name = sandbox.metadata?.['name']?.trim();
  return name ? name : sandbox.sandboxID;
}

/** What the sandbox was started from, in the words people chose. */
export function templateName(sandbox: ISandbox): string {
  return sandbox.alias ?? sandbox.templateID;
}

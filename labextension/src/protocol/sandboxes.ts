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
  /** The strongest tier that this machine gives; settings may hold the engine below it. */
  readonly best_tier?: string;
  /** "proxy", "full", "none" or "host": what sandboxes have of a network. */
  readonly network?: string | null;
  /** How much each limit allows: memoryMB, cpuCount, processes, diskSizeMB. */
  readonly amounts?: Readonly<Record<string, number>>;
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
  /** Where the configured deployment is. */
  readonly host?: string | null;
}

/** A live terminal that the server started. */
export interface ITerminalInfo {
  readonly pid: number;
  readonly cmd?: string;
  readonly tag?: string | null;
}

/** Control characters, and those that turn the direction of what follows them. */
// eslint-disable-next-line no-control-regex
const INVISIBLE = /[\u0000-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g;

/** A name as it can be trusted to look: nothing hidden in it, nothing turned around by it. */
export function visible(name: string): string {
  return name.replace(INVISIBLE, '\ufffd');
}

/** The name people gave to the sandbox, else its id. */
export function displayName(sandbox: ISandbox): string {
  const name = visible(sandbox.metadata?.['name'] ?? '').trim();
  return name === '' ? sandbox.sandboxID : name;
}

/** What the sandbox was started from, in the words people chose. */
export function templateName(sandbox: ISandbox): string {
  return visible(sandbox.alias ?? sandbox.templateID);
}

/** What runs in front of a terminal: `""` at the prompt, `null` where nobody can say. */
export interface ITerminalState {
  readonly pid: number;
  readonly running: string | null;
}

/** Something that sandboxes are created from. */
export interface ITemplate {
  readonly templateID: string;
  readonly names: readonly string[];
  readonly kind: 'template' | 'snapshot';
  readonly buildStatus?: string | null;
}

export interface ISnapshot {
  readonly snapshotID: string;
  readonly names: readonly string[];
}

/** Work on a sandbox that takes long. */
export interface IOperation {
  readonly operationID: string;
  readonly kind: string;
  readonly phase: string;
  readonly doneBytes: number;
  /** Not known in the first second. */
  readonly totalBytes: number | null;
  readonly cancellable: boolean;
}

/** A template or snapshot in the words people chose. */
export function templateLabel({ names, templateID }: ITemplate): string {
  return shortTemplate(names[0] ?? templateID);
}

/** Without what every name of this machine begins and ends with. */
export function shortTemplate(name: string): string {
  return visible(name.replace(/^local\//, '').replace(/:default$/, ''));
}

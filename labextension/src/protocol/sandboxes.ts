/** The records of `sbx/api`: sandboxes, the engine behind them and how it isolates. */

import type { IConnection } from './connections';

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
  /** Whose it is, where the user sees the sandboxes of others and this is one of them. */
  readonly owner?: string;
}

/** A kernel of the server and the sandbox that it runs in. */
export interface IKernelPlace {
  readonly kernelID: string;
  readonly sandboxID: string;
}

/** Options of a new sandbox; the server has a default for each. */
export interface INewSandbox {
  readonly template?: string;
  /** Seconds. */
  readonly timeout?: number;
  readonly name?: string;
  readonly metadata?: Readonly<Record<string, string>>;
  readonly envs?: Readonly<Record<string, string>>;
  /** Whether it reaches the internet. */
  readonly internet?: boolean;
  /** What happens when its time is over. */
  readonly onTimeout?: 'kill' | 'pause';
  readonly volumes?: readonly { readonly name: string; readonly path: string }[];
}

/** What the sandbox of a kernel shall have; what is left out stays. */
export interface ISandboxSize {
  readonly memoryMB?: number;
  /** Seconds from now. */
  readonly timeout?: number;
  readonly keepFiles?: boolean;
}

/** A missing part that would make the isolation stronger, and the command that adds it. */
export interface IMissing {
  readonly what: string;
  readonly remedy: string;
}

export interface IIsolation {
  /** "namespaces", "landlock" or "none". */
  readonly tier: string;
  /** "root-mapped", "subordinate" or "virtual". */
  readonly users?: string;
  /** Whether each sandbox has host ids of its own: "own" or "shared". */
  readonly ids?: string;
  /** Who serves clients: "separate" (a user that root became), "root" or "user". */
  readonly served_by?: string;
  /** Resource (memory, disk, ...): what holds sandboxes to it, or "none". */
  readonly limits?: Readonly<Record<string, string>>;
  /** Resource: "limited" by the kernel, "watched", or "not limited". */
  readonly limit_words?: Readonly<Record<string, string>>;
  readonly freezer?: string;
  readonly reflink?: boolean;
  readonly missing?: readonly IMissing[];
  /** The strongest tier that this machine supports; settings may choose a weaker one. */
  readonly best_tier?: string;
  /** The network of sandboxes: "proxy", "full", "none" or "host". */
  readonly network?: string | null;
  /** Whether sandboxes of the tier "landlock" have ports of their own, which kernels need. */
  readonly loopback?: boolean;
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
  /** The connection of lists and new sandboxes. */
  readonly connection?: IConnection;
  /** The names of all connections. */
  readonly connections?: readonly string[];
  /** Where ports of sandboxes are: below the server's address, or at host names of a pattern. */
  readonly ports?: { readonly mode: 'path' | 'host'; readonly hosts?: string };
}

/** A live terminal that the server started. */
export interface ITerminalInfo {
  readonly pid: number;
  readonly cmd?: string;
  readonly tag?: string | null;
  /** Empty for none. */
  readonly name?: string;
  /** Opens it for other users who may use the sandbox; a path of the server. */
  readonly link?: string;
}

/** Control characters, and characters that change the direction of text. */
// eslint-disable-next-line no-control-regex
const INVISIBLE = /[\u0000-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g;

/** Replaces invisible and direction-changing characters, so that a name cannot look like another. */
export function visible(name: string): string {
  return name.replace(INVISIBLE, '\ufffd');
}

/** The name of the sandbox, else its id. */
export function displayName(sandbox: ISandbox): string {
  const name = visible(sandbox.metadata?.['name'] ?? '').trim();
  return name === '' ? sandbox.sandboxID : name;
}

/** Whether the server keeps the sandbox ready for the next kernel, so that nobody uses it yet. */
export function isReserve(sandbox: ISandbox): boolean {
  return sandbox.metadata?.['sbx-ready-for'] !== undefined;
}

/** The alias of the sandbox's template, else the template's id. */
export function templateName(sandbox: ISandbox): string {
  return visible(sandbox.alias ?? sandbox.templateID);
}

/** The foreground program of a terminal: `""` at the prompt, `null` if unknown. */
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

/** A long-running operation on a sandbox. */
export interface IOperation {
  readonly operationID: string;
  readonly kind: string;
  readonly phase: string;
  readonly doneBytes: number;
  /** Not known in the first second. */
  readonly totalBytes: number | null;
  readonly cancellable: boolean;
}

/** The short name of a template or snapshot, else its id. */
export function templateLabel({ names, templateID }: ITemplate): string {
  return shortTemplate(names[0] ?? templateID);
}

/** Removes the `local/` and `:default` that every name of this machine has. */
export function shortTemplate(name: string): string {
  return visible(name.replace(/^local\//, '').replace(/:default$/, ''));
}

/** What a terminal is called: its name, else its command. */
export function terminalTitle({ name, cmd }: ITerminalInfo): string {
  return visible(name === undefined || name === '' ? (cmd ?? 'terminal') : name);
}

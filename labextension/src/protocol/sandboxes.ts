/** The records of `sbx/api`: sandboxes, the engine behind them and how it isolates. */

import type {
  CreateBody,
  EngineState,
  Isolation,
  KernelPlace,
  ListedSandbox,
  ListedTerminal,
  MissingPart,
  SandboxOperation,
  ServerInfo,
  SizeBody,
  SnapshotInfo,
  StoredTemplate,
  TerminalState
} from './api';

/** One sandbox as the list shows it. */
export type ISandbox = ListedSandbox;

export type SandboxState = ListedSandbox['state'];

/** A kernel of the server and the sandbox that it runs in. */
export type IKernelPlace = KernelPlace;

/** Options of a new sandbox; the server has a default for each. */
export type INewSandbox = CreateBody;

/** The new size of a kernel's sandbox; fields that are left out stay as they are. */
export type ISandboxSize = SizeBody;

/** A missing part that would make the isolation stronger, and the command that adds it. */
export type IMissing = MissingPart;

export type IIsolation = Isolation;

export type IEngine = EngineState;

/** The answer of `sbx/api/info`. */
export type IServerInfo = ServerInfo;

/** A live terminal that the server started. */
export type ITerminalInfo = ListedTerminal;

/** A terminal with its foreground program: `""` at the prompt, `null` if unknown. */
export type ITerminalState = TerminalState;

/** Something that sandboxes are created from. */
export type ITemplate = StoredTemplate;

export type ISnapshot = SnapshotInfo;

/** A long-running operation on a sandbox. */
export type IOperation = SandboxOperation;

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

/** The short name of a template or snapshot, else its id. */
export function templateLabel({ names, templateID }: ITemplate): string {
  return shortTemplate(names[0] ?? templateID);
}

/** Removes the `local/` and `:default` that every name of this machine has. */
export function shortTemplate(name: string): string {
  return visible(name.replace(/^local\//, '').replace(/:default$/, ''));
}

/** The title of a terminal: its name, else its command. */
export function terminalTitle({ name, cmd }: ITerminalInfo): string {
  return visible(name === undefined || name === '' ? (cmd ?? 'terminal') : name);
}

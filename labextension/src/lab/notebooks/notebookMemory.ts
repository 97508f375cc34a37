/** The notebook's record of its sandbox: read from messages and metadata, which may be forged. */
export interface INotebookMemory {
  readonly sandbox: string;
  readonly template: string;
  readonly snapshot: string | null;
  readonly name: string;
}

/** The member of the notebook's metadata. */
export const METADATA_KEY = 'sbx_jupyter';

/** The comm on which the magics tell the page which sandbox is in use. */
export const COMM_TARGET = 'sbx-jupyter:notebook';

const SANDBOX_ID = /^[a-z0-9]{8,64}$/;
const REFERENCE = /^[A-Za-z0-9][A-Za-z0-9_.:/-]{0,127}$/;
const NAME = /^[^\p{C}]{0,80}$/u;

/** Reads a memory; `undefined` for anything that is not plainly one, since parts of it become lines of code. */
export function parseMemory(value: unknown): INotebookMemory | undefined {
  if (typeof value !== 'object' || value === null) {
    return undefined;
  }
  const { sandbox, template, snapshot, name } = value as Record<string, unknown>;
  const isValid =
    matches(sandbox, SANDBOX_ID) &&
    matches(template, REFERENCE) &&
    (snapshot === null || snapshot === undefined || matches(snapshot, REFERENCE)) &&
    matches(name ?? '', NAME);
  return isValid
    ? {
        sandbox: String(sandbox),
        template: String(template),
        snapshot: typeof snapshot === 'string' ? snapshot : null,
        name: typeof name === 'string' ? name : ''
      }
    : undefined;
}

/** The cell with which a notebook gets its sandbox back, in one of the ways that are offered. */
export function recoveryCode(memory: INotebookMemory, way: 'reconnect' | 'restore' | 'recreate'): string {
  const line = {
    reconnect: `%sbx use ${memory.sandbox}`,
    restore: `%sbx restore ${memory.snapshot ?? memory.template}`,
    recreate: `%sbx create --template ${memory.template}`
  }[way];
  return `%load_ext sbx_jupyter\n${line}`;
}

function matches(value: unknown, pattern: RegExp): boolean {
  return typeof value === 'string' && pattern.test(value);
}

import type { IProcess } from '../protocol/observations';
import { visible } from '../protocol/sandboxes';

/** The key by which the processes of one parent are sorted. */
export type ProcessOrder = 'pid' | 'cpu' | 'memory';

/** A process and how deep it is in the tree, from 1. */
export interface IProcessRow {
  readonly process: IProcess;
  readonly depth: number;
}

/** The processes as a tree: each parent before its children, in an order among themselves. */
export function processTree(processes: readonly IProcess[], order: ProcessOrder): readonly IProcessRow[] {
  const known = new Set(processes.map(({ pid }) => pid));
  const children = new Map<number | null, IProcess[]>();
  for (const process of processes) {
    const { pid, parent } = process;
    const above = parent !== undefined && parent !== null && parent !== pid && known.has(parent) ? parent : null;
    children.set(above, [...(children.get(above) ?? []), process]);
  }
  const seen = new Set<number>();
  const below = (parent: number | null, depth: number): IProcessRow[] =>
    [...(children.get(parent) ?? [])].sort(ORDERS[order]).flatMap(process => {
      if (seen.has(process.pid)) {
        return [];
      }
      seen.add(process.pid);
      return [{ process, depth }, ...below(process.pid, depth + 1)];
    });
  const rows = below(null, 1);
  // Read while they changed, processes can be each other's parents; they are shown all the same.
  return [...rows, ...processes.filter(({ pid }) => !seen.has(pid)).map(process => ({ process, depth: 1 }))];
}

/** The command line; of kernel threads and zombies, the name. */
export function commandLine({ cmd, args = [], name = '' }: IProcess): string {
  const words = cmd === undefined ? args : [cmd, ...args];
  return visible(words.length === 0 ? `[${name}]` : words.map(quoted).join(' '));
}

const ORDERS: Readonly<Record<ProcessOrder, (one: IProcess, other: IProcess) => number>> = {
  pid: (one, other) => one.pid - other.pid,
  cpu: (one, other) => (other.cpuPct ?? 0) - (one.cpuPct ?? 0) || one.pid - other.pid,
  memory: (one, other) => (other.memoryBytes ?? 0) - (one.memoryBytes ?? 0) || one.pid - other.pid
};

const quoted = (text: string): string => (/^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`);

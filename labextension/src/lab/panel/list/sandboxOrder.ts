import { trans } from '../../../components/translation';
import type { IReading } from '../../../protocol/runtime';
import type { ISandbox } from '../../../protocol/sandboxes';
import { displayName, shortTemplate, templateName, visible } from '../../../protocol/sandboxes';

/** The keys by which the list can be sorted. */
export type SortKey = 'newest' | 'name' | 'left' | 'cpu' | 'memory';

/** The keys by which the list can be grouped. */
export type GroupKey = 'none' | 'template' | 'state' | 'owner' | 'notebook';

/** The sandboxes below one heading. */
export interface IGroup {
  /** Empty where the list has no groups. */
  readonly title: string;
  readonly items: readonly ISandbox[];
}

/** The facts about the kernels of this server that groups need. */
export interface IKernels {
  /** The sandbox of the notebook in front. */
  readonly current: string | undefined;
  readonly has: (sandboxId: string) => boolean;
}

const NO_KERNELS: IKernels = { current: undefined, has: () => false };

/** Gives the newest reading of a sandbox, if there is one. */
export type Latest = (sandboxId: string) => IReading | undefined;

/** The sandboxes whose name, id, template or owner contains every word of `search`. */
export function matching(items: readonly ISandbox[], search: string): readonly ISandbox[] {
  const words = search.toLowerCase().split(/\s+/).filter(Boolean);
  return items.filter(sandbox => {
    const text = `${displayName(sandbox)} ${sandbox.sandboxID} ${templateName(sandbox)} ${sandbox.owner ?? ''}`.toLowerCase();
    return words.every(word => text.includes(word));
  });
}

/** The sandboxes in another order: newest first, by name, those that end first, or what uses most before the others. */
export function sorted(items: readonly ISandbox[], key: SortKey, latest: Latest = () => undefined): readonly ISandbox[] {
  const time = (text: string): number => Date.parse(text);
  const left = (sandbox: ISandbox): number => (sandbox.state === 'paused' ? Infinity : time(sandbox.endAt));
  const cpu = ({ sandboxID }: ISandbox): number => latest(sandboxID)?.cpu_used_pct ?? -1;
  const memory = ({ sandboxID }: ISandbox): number => latest(sandboxID)?.mem_used ?? -1;
  const orders: Record<SortKey, (one: ISandbox, other: ISandbox) => number> = {
    newest: (one, other) => time(other.startedAt) - time(one.startedAt),
    name: (one, other) => displayName(one).localeCompare(displayName(other), undefined, { numeric: true }),
    // Two that do not end compare as equal, not as `Infinity - Infinity`.
    left: (one, other) => (left(one) === left(other) ? 0 : left(one) - left(other)),
    cpu: (one, other) => cpu(other) - cpu(one),
    memory: (one, other) => memory(other) - memory(one)
  };
  return [...items].sort(orders[key]);
}

/** The sandboxes with one of them before all others. */
export function withFirst(items: readonly ISandbox[], first: string | undefined): readonly ISandbox[] {
  const isFirst = (sandbox: ISandbox) => sandbox.sandboxID === first;
  return first === undefined ? items : [...items.filter(isFirst), ...items.filter(item => !isFirst(item))];
}

/** The sandboxes in the order that they had before; those that are new come last. */
export function steady(items: readonly ISandbox[], before: readonly string[]): readonly ISandbox[] {
  const places = new Map(before.map((id, at) => [id, at]));
  const place = ({ sandboxID }: ISandbox): number => places.get(sandboxID) ?? before.length;
  return [...items].sort((one, other) => place(one) - place(other));
}

/** The sandboxes below headings: the user's own and those of the notebook first, else that of the first one. */
export function grouped(items: readonly ISandbox[], key: GroupKey, kernels: IKernels = NO_KERNELS): readonly IGroup[] {
  const titles: Record<GroupKey, (sandbox: ISandbox) => string> = {
    none: () => '',
    template: sandbox => shortTemplate(templateName(sandbox)),
    state: ({ state }) => (state === 'paused' ? trans.__('Paused') : trans.__('Running')),
    owner: ({ owner }) => (owner === undefined ? trans.__('Mine') : visible(owner)),
    notebook: ({ sandboxID }) =>
      sandboxID === kernels.current ? trans.__('This notebook') : kernels.has(sandboxID) ? trans.__('Other kernels') : trans.__('Without a kernel')
  };
  const firsts: Partial<Record<GroupKey, readonly string[]>> = {
    owner: [trans.__('Mine')],
    notebook: [trans.__('This notebook'), trans.__('Other kernels')]
  };
  const groups = new Map<string, ISandbox[]>();
  for (const sandbox of items) {
    const title = titles[key](sandbox);
    groups.set(title, [...(groups.get(title) ?? []), sandbox]);
  }
  const first = firsts[key] ?? [];
  const rank = ({ title }: IGroup): number => (first.includes(title) ? first.indexOf(title) : first.length);
  return [...groups].map(([title, members]) => ({ title, items: members })).sort((one, other) => rank(one) - rank(other));
}

/** A name for a new sandbox: its template's and the lowest number that is free. */
export function freeSandboxName(template: string, items: readonly ISandbox[]): string {
  const stem = shortTemplate(template).split(':')[0] ?? template;
  const taken = new Set(items.map(displayName));
  for (let number = 1; ; number += 1) {
    const name = `${stem}-${number}`;
    if (!taken.has(name)) {
      return name;
    }
  }
}

import type { ISandbox } from '../../protocol/sandboxes';
import { displayName, shortTemplate, templateName } from '../../protocol/sandboxes';

/** What the list can be sorted by. */
export type SortKey = 'newest' | 'name' | 'left';

/** The sandboxes whose name, id or template contains every word of `search`. */
export function matching(items: readonly ISandbox[], search: string): readonly ISandbox[] {
  const words = search.toLowerCase().split(/\s+/).filter(Boolean);
  return items.filter(sandbox => {
    const text = `${displayName(sandbox)} ${sandbox.sandboxID} ${templateName(sandbox)}`.toLowerCase();
    return words.every(word => text.includes(word));
  });
}

/** The sandboxes in another order: newest first, by name, or those that end first before the others. */
export function sorted(items: readonly ISandbox[], key: SortKey): readonly ISandbox[] {
  const time = (text: string): number => Date.parse(text);
  const left = (sandbox: ISandbox): number => (sandbox.state === 'paused' ? Infinity : time(sandbox.endAt));
  const orders: Record<SortKey, (one: ISandbox, other: ISandbox) => number> = {
    newest: (one, other) => time(other.startedAt) - time(one.startedAt),
    name: (one, other) => displayName(one).localeCompare(displayName(other), undefined, { numeric: true }),
    // Two that do not end compare as equal, not as `Infinity - Infinity`.
    left: (one, other) => (left(one) === left(other) ? 0 : left(one) - left(other))
  };
  return [...items].sort(orders[key]);
}

/** The sandboxes with one of them before all others. */
export function withFirst(items: readonly ISandbox[], first: string | undefined): readonly ISandbox[] {
  const isFirst = (sandbox: ISandbox) => sandbox.sandboxID === first;
  return first === undefined ? items : [...items.filter(isFirst), ...items.filter(item => !isFirst(item))];
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

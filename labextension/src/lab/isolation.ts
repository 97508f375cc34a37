import type { IIsolation } from '../protocol/sandboxes';

/** How a tier is told to people: a word for the badge, a sentence for what it means. */
export interface ITierText {
  readonly label: string;
  readonly level: 'strong' | 'partial' | 'absent';
  readonly meaning: string;
}

const TIERS: Readonly<Record<string, ITierText>> = {
  namespaces: {
    label: 'Isolated',
    level: 'strong',
    meaning:
      'Each sandbox has its own file system, processes, users and network, kept apart by the kernel’s namespaces.'
  },
  landlock: {
    label: 'Partly isolated',
    level: 'partial',
    meaning:
      'This machine gives no namespaces. Landlock keeps a sandbox’s files apart, but it shares the ' +
      'machine’s network and can see other processes.'
  },
  none: {
    label: 'Not isolated',
    level: 'absent',
    meaning: 'Nothing on this machine keeps a sandbox in. Do not run code that you do not trust.'
  }
};

/** The words for a tier; one that is unknown here is named as the server names it. */
export function tierText(tier: string): ITierText {
  return (
    TIERS[tier] ?? { label: tier, level: 'partial', meaning: `The server names this isolation “${tier}”.` }
  );
}

const USERS: Readonly<Record<string, string>> = {
  'root-mapped': 'Real users: root and user are different, and neither is a user of this machine.',
  subordinate: 'Real users: root and user are different ids set aside for you.',
  virtual: 'root and user are two names for one id.'
};

/** What holds, line by line. */
export function enforcedLines(isolation: IIsolation): string[] {
  const users = USERS[isolation.users ?? ''];
  const limits = Object.entries(isolation.limits ?? {})
    .filter(([, how]) => how !== 'none')
    .map(([what, how]) => `Limit on ${named(what)}: ${how}`);
  return users === undefined ? limits : [users, ...limits];
}

/** What does not hold, line by line. */
export function unenforcedLines(isolation: IIsolation): string[] {
  return Object.entries(isolation.limits ?? {})
    .filter(([, how]) => how === 'none')
    .map(([what]) => `No limit on ${named(what)}`);
}

/** The badge's tooltip: what the tier means and what is not enforced. */
export function isolationSummary(isolation: IIsolation): string {
  const lines = [tierText(isolation.tier).meaning, ...unenforcedLines(isolation)];
  for (const { what } of isolation.missing ?? []) {
    lines.push(`Missing: ${what}`);
  }
  return lines.join('\n');
}

function named(limit: string): string {
  return limit === 'cpu' ? 'CPU' : limit;
}

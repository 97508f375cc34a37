import { trans } from '../components/translation';
import type { IIsolation } from '../protocol/sandboxes';

/** How a tier is told to people: a word for the badge, a sentence for what it means. */
export interface ITierText {
  readonly label: string;
  readonly level: 'strong' | 'partial' | 'absent' | 'unknown';
  readonly meaning: string;
}

/** The words for a tier; one that is unknown here is named as the server names it. */
export function tierText(tier: string): ITierText {
  switch (tier) {
    case 'namespaces':
      return {
        label: trans.__('Isolated'),
        level: 'strong',
        meaning: trans.__(
          'Each sandbox has its own file system, processes, users and network, kept apart by the kernel’s namespaces.'
        )
      };
    case 'landlock':
      return {
        label: trans.__('Partly isolated'),
        level: 'partial',
        meaning: trans.__(
          'Landlock keeps a sandbox from the files, processes and network of this machine, but it can find out which of your files exist. Not for strangers’ code.'
        )
      };
    case 'none':
      return {
        label: trans.__('Not isolated'),
        level: 'absent',
        meaning: trans.__('Nothing keeps a sandbox in. Do not run code that you do not trust.')
      };
    default:
      return {
        label: tier,
        level: 'partial',
        meaning: trans.__('The server names this isolation “%1”.', tier)
      };
  }
}

/** What sandboxes have of a network. */
export function networkText(network: string | null | undefined): string {
  switch (network) {
    case 'proxy':
      return trans.__('Its own. The way out is the engine’s proxy, which refuses private addresses.');
    case 'full':
      return trans.__(
        'Its own. TCP and UDP go out through a packet filter, which refuses private addresses.'
      );
    case 'none':
      return trans.__('None: programs cannot open connections.');
    case 'host':
      return trans.__('The machine’s: nothing keeps a sandbox from it.');
    default:
      return network ?? trans.__('Not known.');
  }
}

/** What the two users of a sandbox are on this machine. */
export function usersText(users: string | undefined): string {
  switch (users) {
    case 'root-mapped':
      return trans.__('Real: root and user are different, and neither is a user of this machine.');
    case 'subordinate':
      return trans.__('Real: root and user are different ids set aside for you.');
    case 'virtual':
      return trans.__('root and user are two names for one id.');
    default:
      return users ?? trans.__('Not known.');
  }
}

/** One limit: what it is on, how much it allows, what holds it; `null` when nothing does. */
export interface ILimitLine {
  readonly what: string;
  readonly amount: string;
  readonly heldBy: string | null;
}

export function limitLines(isolation: IIsolation): ILimitLine[] {
  return Object.entries(isolation.limits ?? {}).map(([what, how]) => ({
    what: limitName(what),
    amount: limitAmount(what, isolation.amounts ?? {}),
    heldBy: how === 'none' ? null : how
  }));
}

/** The badge's tooltip: what the tier means and what is not held. */
export function isolationSummary(isolation: IIsolation): string {
  const open = limitLines(isolation).filter(({ heldBy }) => heldBy === null);
  const missing = (isolation.missing ?? []).map(({ what }) => trans.__('Missing: %1', what));
  return [
    tierText(isolation.tier).meaning,
    ...open.map(({ what }) => trans.__('%1: not held', what)),
    ...missing
  ].join('\n');
}

function limitName(limit: string): string {
  const names: Readonly<Record<string, string>> = {
    cpu: trans.__('CPU'),
    memory: trans.__('Memory'),
    processes: trans.__('Processes'),
    disk: trans.__('Disk')
  };
  return names[limit] ?? limit;
}

function limitAmount(limit: string, amounts: Readonly<Record<string, number>>): string {
  const mebibytes = (value: number) => (value % 1024 === 0 ? `${value / 1024} GiB` : `${value} MiB`);
  const shown: Readonly<Record<string, [string, (value: number) => string]>> = {
    cpu: ['cpuCount', value => (value === 1 ? trans.__('1 core') : trans.__('%1 cores', value))],
    memory: ['memoryMB', mebibytes],
    disk: ['diskSizeMB', mebibytes],
    processes: ['processes', String]
  };
  const [key, format] = shown[limit] ?? ['', String];
  const amount = amounts[key];
  return amount === undefined ? '' : format(amount);
}

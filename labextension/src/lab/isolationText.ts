import { trans } from '../components/translation';
import type { IIsolation } from '../protocol/sandboxes';

/** A tier in words: a label for the badge and a sentence on what it means. */
export interface ITierText {
  readonly label: string;
  readonly level: 'strong' | 'partial' | 'absent' | 'unknown';
  readonly meaning: string;
}

/** Describes a tier; an unknown one keeps the server's name. */
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
        meaning: trans.__('Sandboxes are not isolated from this machine. Do not run code that you do not trust.')
      };
    default:
      return {
        label: tier,
        level: 'partial',
        meaning: trans.__('The server names this isolation “%1”.', tier)
      };
  }
}

/** Describes the network of sandboxes. */
export function networkText(network: string | null | undefined): string {
  switch (network) {
    case 'proxy':
      return trans.__('Its own. Outbound traffic goes through the engine’s proxy, which refuses private addresses.');
    case 'full':
      return trans.__(
        'Its own. TCP and UDP go out through a packet filter, which refuses private addresses.'
      );
    case 'none':
      return trans.__('None: programs cannot open connections.');
    case 'host':
      return trans.__('The network of this machine, without restrictions.');
    default:
      return network ?? trans.__('Not known.');
  }
}

/** Describes the users of a sandbox. */
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

/** One limit: the resource, the amount, and what enforces it (`null` when nothing does). */
export interface ILimitLine {
  readonly what: string;
  readonly amount: string;
  readonly enforcedBy: string | null;
}

export function limitLines(isolation: IIsolation): ILimitLine[] {
  return Object.entries(isolation.limits ?? {}).map(([what, how]) => ({
    what: limitName(what),
    amount: limitAmount(what, isolation.amounts ?? {}),
    enforcedBy: how === 'none' ? null : how
  }));
}

/** The tooltip of the badge: what the tier means, which limits are not enforced, what is missing. */
export function isolationSummary(isolation: IIsolation): string {
  const open = limitLines(isolation).filter(({ enforcedBy }) => enforcedBy === null);
  const missing = (isolation.missing ?? []).map(({ what }) => trans.__('Missing: %1', what));
  return [
    tierText(isolation.tier).meaning,
    ...open.map(({ what }) => trans.__('%1: not enforced', what)),
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

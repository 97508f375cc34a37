import { trans } from '../../components/translation';
import type { IIsolation } from '../../protocol/sandboxes';

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

/** Describes whether sandboxes share ids of the machine. */
export function idsText(ids: string | undefined): string {
  switch (ids) {
    case 'own':
      return trans.__('Own: the kernel counts what a sandbox uses for that sandbox alone.');
    case 'shared':
      return trans.__('Shared: what the kernel counts for each user, one sandbox can use up for all.');
    default:
      return ids ?? trans.__('Not known.');
  }
}

/** Describes what a broken parser of the engine could do: that depends on the user it runs as. */
export function servedByText(servedBy: string | undefined): string {
  switch (servedBy) {
    case 'separate':
      return trans.__('A user without privileges: a broken engine cannot touch the rest of the machine.');
    case 'root':
      return trans.__('Root: a broken engine can do everything on the machine.');
    case 'user':
      return trans.__('The user who started the engine: a broken engine can do what that user may.');
    default:
      return servedBy ?? trans.__('Not known.');
  }
}

/** One limit: the resource, the amount, what the limit is worth, and what holds it. */
export interface ILimitLine {
  readonly resource: string;
  readonly what: string;
  readonly amount: string;
  readonly worth: 'limited' | 'watched' | 'not limited';
  readonly holder: string;
}

export function limitLines(isolation: IIsolation): ILimitLine[] {
  return Object.entries(isolation.limits ?? {}).map(([resource, holder]) => ({
    resource,
    what: limitName(resource),
    amount: limitAmount(resource, isolation.amounts ?? {}),
    worth: limitWorth(isolation.limit_words?.[resource]),
    holder
  }));
}

/** Says how strictly a limit is enforced; any other word of a server than these two counts as not limited. */
export function worthText(worth: ILimitLine['worth']): string {
  switch (worth) {
    case 'limited':
      return trans.__('limited');
    case 'watched':
      return trans.__('watched');
    default:
      return trans.__('not limited');
  }
}

function limitWorth(word: string | undefined): ILimitLine['worth'] {
  return word === 'limited' || word === 'watched' ? word : 'not limited';
}

/** The tooltip of the badge: what the tier means, shared ids, who serves, what is not limited and missing. */
export function isolationSummary(isolation: IIsolation): string {
  const open = limitLines(isolation).filter(({ worth }) => worth !== 'limited');
  const missing = (isolation.missing ?? []).map(({ what }) => trans.__('Missing: %1', what));
  return [
    tierText(isolation.tier).meaning,
    ...(isolation.ids === 'shared' ? [trans.__('Ids shared between sandboxes')] : []),
    ...(isolation.served_by === 'root' ? [trans.__('Clients are served by root')] : []),
    ...open.map(({ what, worth }) => trans.__('%1: %2', what, worthText(worth))),
    ...missing
  ].join('\n');
}

function limitName(limit: string): string {
  const names: Readonly<Record<string, string>> = {
    cpu: trans.__('CPU'),
    memory: trans.__('Memory'),
    processes: trans.__('Processes'),
    disk: trans.__('Disk'),
    shared_memory: trans.__('Shared memory'),
    tcp_memory: trans.__('TCP memory'),
    inodes: trans.__('Number of files'),
    volumes: trans.__('Volumes'),
    cpu_shares: trans.__('CPU shares')
  };
  return names[limit] ?? limit;
}

function limitAmount(limit: string, amounts: Readonly<Record<string, number>>): string {
  const mebibytes = (value: number) => (value % 1024 === 0 ? `${value / 1024} GiB` : `${value} MiB`);
  const shown: Readonly<Record<string, [string, (value: number) => string]>> = {
    cpu: ['cpuCount', value => (value === 1 ? trans.__('1 core') : trans.__('%1 cores', value))],
    memory: ['memoryMB', mebibytes],
    disk: ['diskSizeMB', mebibytes],
    volumes: ['volumeSizeMB', mebibytes],
    processes: ['processes', String]
  };
  const [key, format] = shown[limit] ?? ['', String];
  const amount = amounts[key];
  return amount === undefined ? '' : format(amount);
}

/** The records of the runtime API in the browser: entries, events, readings. */

import type { EntryInfo, Reading, SandboxMetric } from './api';

/** One file, directory or link; kernels and other deployments write 64-bit numbers as text. */
export type IEntryInfo = Omit<EntryInfo, 'type' | 'size'> & {
  readonly type?: string;
  readonly size?: string | number;
};

export function isDirectory(entry: IEntryInfo): boolean {
  return entry.type === 'FILE_TYPE_DIRECTORY';
}

export function isLink(entry: IEntryInfo): boolean {
  return entry.symlinkTarget !== undefined && entry.symlinkTarget !== null;
}

export function sizeOf(entry: IEntryInfo): number {
  return Number(entry.size ?? 0);
}

export interface IFilesystemEvent {
  /** Relative to the watched directory. */
  readonly name: string;
  readonly type: string;
}

/** One set of metrics as views draw it; sizes in bytes, `ts` in unix seconds, 100 % CPU is one core. */
export type IReading = Pick<
  Reading,
  'ts' | 'cpu_count' | 'cpu_used_pct' | 'mem_used' | 'mem_total' | 'mem_cache' | 'disk_used' | 'disk_total'
>;

/** One stored reading of the platform API. */
export type ISandboxMetric = SandboxMetric;

export function toReading(metric: ISandboxMetric): IReading {
  return {
    ts: metric.timestampUnix,
    cpu_count: metric.cpuCount,
    cpu_used_pct: metric.cpuUsedPct,
    mem_used: metric.memUsed,
    mem_total: metric.memTotal,
    mem_cache: metric.memCache,
    disk_used: metric.diskUsed,
    disk_total: metric.diskTotal
  };
}

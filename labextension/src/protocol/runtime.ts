/** The records of the runtime API in the browser: entries, events, readings. */

export type EntryType = 'FILE_TYPE_FILE' | 'FILE_TYPE_DIRECTORY' | 'FILE_TYPE_UNSPECIFIED';

/** One file, directory or link. 64-bit numbers are text in this JSON form. */
export interface IEntryInfo {
  readonly name: string;
  readonly type?: EntryType;
  readonly path: string;
  readonly size?: string | number;
  readonly mode?: number;
  readonly permissions?: string;
  readonly owner?: string;
  readonly group?: string;
  readonly modifiedTime?: string;
  readonly symlinkTarget?: string;
}

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

/** One set of metrics; sizes in bytes. */
export interface IReading {
  /** Unix seconds. */
  readonly ts: number;
  readonly cpu_count: number;
  /** 100 is one core. */
  readonly cpu_used_pct: number;
  readonly mem_used: number;
  readonly mem_total: number;
  readonly mem_cache: number;
  readonly disk_used: number;
  readonly disk_total: number;
}

/** One stored reading of the platform API. */
export interface ISandboxMetric {
  readonly timestampUnix: number;
  readonly cpuCount: number;
  readonly cpuUsedPct: number;
  readonly memUsed: number;
  readonly memTotal: number;
  readonly memCache: number;
  readonly diskUsed: number;
  readonly diskTotal: number;
}

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

import { describe, expect, it } from 'vitest';

import type { IEntryInfo } from '../../src/protocol/runtime';
import { isDirectory, isLink, sizeOf, toReading } from '../../src/protocol/runtime';

const entry: IEntryInfo = { name: 'a', path: '/a', type: 'FILE_TYPE_FILE' };

describe('records of the runtime API', () => {
  it('tell files, directories and links apart', () => {
    expect([isDirectory(entry), isDirectory({ ...entry, type: 'FILE_TYPE_DIRECTORY' })]).toEqual([false, true]);
    expect([isLink(entry), isLink({ ...entry, symlinkTarget: '/b' })]).toEqual([false, true]);
  });

  it('give a size also where it is text or left out', () => {
    expect([sizeOf(entry), sizeOf({ ...entry, size: 3 }), sizeOf({ ...entry, size: '4' })]).toEqual([0, 3, 4]);
  });

  it('turn a stored reading into the form of a live one', () => {
    const timestamp = '1970-01-01T00:00:01Z';
    const stored = { timestamp, timestampUnix: 1, cpuCount: 2, cpuUsedPct: 3, memUsed: 4, memTotal: 5, memCache: 6, diskUsed: 7, diskTotal: 8 };
    expect(toReading(stored)).toEqual({
      ts: 1,
      cpu_count: 2,
      cpu_used_pct: 3,
      mem_used: 4,
      mem_total: 5,
      mem_cache: 6,
      disk_used: 7,
      disk_total: 8
    });
  });
});

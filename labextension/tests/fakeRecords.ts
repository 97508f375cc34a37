import type { ISandbox } from '../src/protocol/sandboxes';

/** A running sandbox with an id of one's own. */
export const fakeSandbox = (sandboxID: string, values: Partial<ISandbox> = {}): ISandbox => ({
  sandboxID,
  templateID: 't1',
  clientID: 'local',
  envdVersion: '0.6.13',
  alias: 'base',
  state: 'running',
  startedAt: '2026-01-01T00:00:00Z',
  endAt: '2026-01-01T01:00:00Z',
  cpuCount: 1,
  memoryMB: 512,
  diskSizeMB: 1024,
  ...values
});

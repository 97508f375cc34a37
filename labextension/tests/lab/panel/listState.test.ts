import { Signal } from '@lumino/signaling';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import { EndedSandboxes } from '../../../src/lab/panel/list/endedSandboxes';
import { grouped, sorted, steady } from '../../../src/lab/panel/list/sandboxOrder';
import { NOTHING, picked, remaining } from '../../../src/lab/panel/list/selection';
import { KEPT, Usage } from '../../../src/lab/panel/list/usage';
import { Sandboxes } from '../../../src/lab/sandboxes';
import type { ISandbox } from '../../../src/protocol/sandboxes';
import { fakeSandbox as sandbox } from '../../fakeRecords';
import { FakeServer } from '../../fakeServer';

const ids = (items: readonly ISandbox[]) => items.map(({ sandboxID }) => sandboxID);

describe('the rows', () => {
  const items = [sandbox('a'), sandbox('b', { alias: 'python' }), sandbox('c', { state: 'paused' })];

  it('keep their places while others are created; new ones come last', () => {
    expect(ids(steady([sandbox('new'), ...items], ['b', 'a', 'c']))).toEqual(['b', 'a', 'c', 'new']);
  });

  it('are grouped by template and by state', () => {
    expect(grouped(items, 'template').map(group => [group.title, ids(group.items)])).toEqual([
      ['base', ['a', 'c']],
      ['python', ['b']]
    ]);
    expect(grouped(items, 'state').map(({ title }) => title)).toEqual(['Running', 'Paused']);
    expect(grouped(items, 'none')).toHaveLength(1);
  });

  it('are sorted by what they use, those without readings last', () => {
    const cpu: Record<string, number> = { a: 5, b: 90 };
    const latest = (id: string) => (id in cpu ? ({ cpu_used_pct: cpu[id], mem_used: -(cpu[id] ?? 0) } as never) : undefined);
    expect(ids(sorted(items, 'cpu', latest))).toEqual(['b', 'a', 'c']);
    expect(ids(sorted(items, 'memory', latest))).toEqual(['c', 'a', 'b']);
  });
});

describe('the choice of several rows', () => {
  const shown = ['a', 'b', 'c', 'd'];

  it('is one by one with Ctrl, from one to another with Shift, none with a click', () => {
    const one = picked(NOTHING, { id: 'b', toggles: true }, shown);
    const range = picked(one, { id: 'd', extends: true }, shown);
    expect([...range.ids]).toEqual(['b', 'c', 'd']);
    expect([...picked(range, { id: 'a', extends: true }, shown).ids]).toEqual(['a', 'b']);
    expect([...picked(range, { id: 'c', toggles: true }, shown).ids]).toEqual(['b', 'd']);
    expect(picked(range, { id: 'c' }, shown).ids.size).toBe(0);
  });

  it('loses rows that are gone', () => {
    const chosen = { ids: new Set(['a', 'x']), anchor: 'x' };
    expect([...remaining(chosen, shown).ids]).toEqual(['a']);
    expect(remaining(NOTHING, shown)).toBe(NOTHING);
    expect([...picked(chosen, { id: 'c', extends: true }, shown).ids]).toEqual(['c']);
  });
});

describe('sandboxes that ended', () => {
  function list() {
    const state = { items: [sandbox('a'), sandbox('b')] as ISandbox[], error: null, info: null as object | null, activity: vi.fn(), now: () => Date.parse('2026-01-01T00:59:55Z') };
    const changed = new Signal<object, void>(state);
    const ended = new EndedSandboxes({ ...state, changed, get items() { return state.items; }, get info() { return state.info; } } as never);
    changed.emit();
    const set = (...items: ISandbox[]) => { state.items = items; changed.emit(); };
    return { ended, state, set };
  }

  it('are remembered with the reason, the last one first, until they are dismissed', () => {
    const { ended, set } = list();
    set(sandbox('b'));
    expect(ended.items.map(({ sandbox: each, reason }) => [each.sandboxID, reason])).toEqual([['a', 'its time was over']]);
    set();
    expect(ended.items.map(each => each.sandbox.sandboxID)).toEqual(['b', 'a']);
    ended.remove('b');
    expect(ended.items).toHaveLength(1);
    set(sandbox('a'));
    expect(ended.items).toEqual([]);
  });

  it('are not those of another connection', () => {
    const { ended, state, set } = list();
    state.info = { connection: { name: 'elsewhere' } };
    set(sandbox('c'));
    expect(ended.items).toEqual([]);
  });

  it('are not those that this page killed', () => {
    const { ended, state, set } = list();
    state.activity.mockReturnValue({ kind: 'killing', operation: null });
    set(sandbox('a'), sandbox('b'));
    set();
    expect(ended.items).toEqual([]);
  });
});

describe('what sandboxes use', () => {
  beforeEach(() => { vi.useFakeTimers(); });
  afterEach(() => { vi.useRealTimers(); });

  it('is asked for all at once, kept for a while, and forgotten with the sandbox', async () => {
    let now = 0;
    class Server extends FakeServer {
      override async request(parts: readonly string[], init?: RequestInit, query?: Record<string, string>): Promise<Response> {
        await super.request(parts, init, query);
        const metric = { timestampUnix: now, cpuCount: 1, cpuUsedPct: 5, memUsed: 1, memTotal: 2, memCache: 0, diskUsed: 0, diskTotal: 0 };
        return Response.json(parts[0] === 'metrics' ? { readings: { a: metric } } : { sandboxes: this.listed, version: '1' });
      }

      listed = [sandbox('a'), sandbox('b', { state: 'paused' })];
    }
    const server = new Server();
    const sandboxes = new Sandboxes(server);
    await sandboxes.refresh();
    const usage = new Usage(sandboxes);
    const stop = usage.follow();
    for (; now < KEPT + 5; now += 1) {
      await vi.advanceTimersByTimeAsync(10_000);
    }
    expect(usage.of('a')).toHaveLength(KEPT);
    expect(usage.of('a')).toBe(usage.of('a'));
    expect(usage.of('b')).toEqual([]);
    expect(server.requests.filter(({ url }) => url.includes('metrics')).every(({ url }) => url.endsWith('metrics?sandboxes=a'))).toBe(true);

    server.listed = [];
    await sandboxes.refresh();
    await vi.advanceTimersByTimeAsync(20_000);
    expect(usage.of('a')).toEqual([]);
    stop();
    usage.dispose();
    sandboxes.dispose();
  });
});

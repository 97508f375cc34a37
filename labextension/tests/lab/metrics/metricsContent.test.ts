import { Signal } from '@lumino/signaling';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import { MetricsContent } from '../../../src/lab/metrics/metricsContent';
import { limitsText } from '../../../src/lab/limitsText';
import { installCanvas } from '../../fakeCanvas';
import { fakeSandbox } from '../../fakeRecords';
import { FakeServer } from '../../fakeServer';
import { FakeTransport } from '../../fakeTransport';
import { button } from '../../userEvents';

const SANDBOX = fakeSandbox('a', { alias: 'local/base', endAt: '2026-01-01T00:10:00Z', cpuCount: 2 });

function content() {
  const state = { items: [SANDBOX], now: Date.parse('2026-01-01T00:00:30Z') };
  const changed = new Signal<object, void>(state);
  const history = vi.fn(() => Promise.resolve([]));
  const execute = vi.fn(() => Promise.resolve());
  const sandboxes = {
    changed,
    get items() { return state.items; },
    error: null,
    find: (id: string) => state.items.find(({ sandboxID }) => sandboxID === id),
    now: () => state.now,
    stateOf: () => 'running',
    transport: () => Object.assign(new FakeTransport(), { history }),
    watch: () => () => undefined,
    activity: () => undefined,
    server: new FakeServer()
  };
  const node = document.createElement('div');
  document.body.replaceChildren(node);
  const made = new MetricsContent(node, [{ sandboxId: 'a', name: 'bench' }], sandboxes as never, { execute } as never);
  const facts = () => node.querySelector('.sbx-View-facts')?.textContent;
  return { node, made, state, changed, facts, execute, history };
}

describe('the metrics tab', () => {
  beforeEach(() => {
    installCanvas();
    vi.useFakeTimers();
  });

  afterEach(() => {
    vi.useRealTimers();
    vi.restoreAllMocks();
  });

  it('counts down the time that is left while it is shown, without any news of the server', async () => {
    const { made, state, facts } = content();
    made.start();
    expect(facts()).toContain('9:30 left');
    state.now += 70_000;
    await vi.advanceTimersByTimeAsync(1000);
    expect(facts()).toContain('8:20 left');

    made.stop();
    state.now += 60_000;
    await vi.advanceTimersByTimeAsync(5000);
    expect(facts()).toContain('8:20 left');
    made.dispose();
  });

  it('reads what is stored each time it is shown again, since it read nothing while it was hidden', () => {
    const { made, history } = content();
    made.start();
    expect(history).toHaveBeenCalledTimes(1);
    made.stop();
    document.dispatchEvent(new Event('visibilitychange'));
    expect(history).toHaveBeenCalledTimes(1);

    made.start();
    expect(history).toHaveBeenCalledTimes(2);
    const page = vi.spyOn(document, 'visibilityState', 'get').mockReturnValue('hidden');
    document.dispatchEvent(new Event('visibilitychange'));
    expect(history).toHaveBeenCalledTimes(2);
    page.mockReturnValue('visible');
    document.dispatchEvent(new Event('visibilitychange'));
    expect(history).toHaveBeenCalledTimes(3);
    made.dispose();
  });

  it('says that its sandbox has ended and offers another from the same template', () => {
    const { node, made, state, changed, facts, execute } = content();
    expect(node.querySelector<HTMLElement>('.sbx-Button:not(.sbx-mod-plain)')?.hidden).toBe(true);
    state.items = [];
    changed.emit();
    expect(facts()).toBe('has ended');
    expect(node.querySelector('.sbx-MetricsView')?.classList.contains('sbx-mod-ended')).toBe(true);
    button(node, 'New sandbox like it').click();
    expect(execute).toHaveBeenCalledWith('sbx:create', { template: 't1' });
    made.dispose();
  });
});

describe('the limits of a sandbox', () => {
  it('are named beside what programs in it may show instead', () => {
    expect(limitsText({ ...SANDBOX, diskSizeMB: 10_240 })).toBe(
      'Limits: 2 cores, 512 MiB of memory, 10 GiB of disk. Inside, top, free and df may show the figures of the whole machine.'
    );
    expect(limitsText(undefined)).toBe('');
  });
});

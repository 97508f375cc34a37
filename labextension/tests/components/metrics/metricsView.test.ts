import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import { MetricsView } from '../../../src/components/metrics/metricsView';
import { SandboxError } from '../../../src/protocol/errors';
import type { IReading } from '../../../src/protocol/runtime';
import { installCanvas } from '../../fakeCanvas';
import { FakeTransport } from '../../fakeTransport';

const reading = (ts: number, values: Partial<IReading> = {}): IReading => ({
  ts,
  cpu_count: 1,
  cpu_used_pct: 12.34,
  mem_used: 256 * 2 ** 20,
  mem_total: 2 ** 30,
  mem_cache: 0,
  disk_used: 2 ** 20,
  disk_total: 0,
  ...values
});

function view() {
  const node = document.createElement('div');
  document.body.replaceChildren(node);
  const transport = new FakeTransport();
  const made = new MetricsView(node, transport);
  const values = () => [...node.querySelectorAll('.sbx-MetricsChart-value')].map(value => value.textContent);
  const message = () => node.querySelector<HTMLElement>('[role=status]');
  return { node, transport, view: made, values, message };
}

describe('the metrics of a sandbox', () => {
  beforeEach(() => {
    installCanvas();
    vi.useFakeTimers();
  });

  afterEach(() => {
    vi.useRealTimers();
    vi.restoreAllMocks();
  });

  it('says that it waits, and no numbers that it does not have', () => {
    const { values, message, node } = view();
    expect(message()?.textContent).toBe('Waiting for the first reading…');
    expect(values()).toEqual(['–', '–', '–']);
    expect([...node.querySelectorAll('section')].map(section => section.getAttribute('aria-label'))).toEqual(['CPU', 'Memory', 'Disk']);
  });

  it('shows use and limit of CPU, memory and disk', async () => {
    const { transport, view: made, values, message } = view();
    transport.reading = reading(100);
    made.start();
    await vi.advanceTimersByTimeAsync(0);

    expect(values()).toEqual(['12 % of 1 core', '256 MiB of 1 GiB', '1 MiB']);
    expect(message()?.hidden).toBe(true);
  });

  it('asks seldom for a sandbox that is not found, and goes on when it is found again', async () => {
    const { transport, view: made, message, values } = view();
    const asked = vi.spyOn(transport, 'metrics').mockRejectedValue(new SandboxError('not_found', 'There is no such sandbox.'));
    made.start();
    await vi.advanceTimersByTimeAsync(10_000);
    expect(asked).toHaveBeenCalledTimes(1);

    expect(message()?.textContent).toBe('There is no such sandbox.');

    asked.mockResolvedValue(reading(100));
    await vi.advanceTimersByTimeAsync(10_000);
    expect(values()[0]).toBe('12 % of 1 core');
    expect(message()?.hidden).toBe(true);
  });

  it('reads again every two seconds, and not after it was stopped', async () => {
    const { transport, view: made, values } = view();
    transport.reading = reading(100);
    made.start();
    await vi.advanceTimersByTimeAsync(0);
    transport.reading = reading(102, { cpu_count: 4, cpu_used_pct: 3.21 });
    await vi.advanceTimersByTimeAsync(2000);
    expect(values()[0]).toBe('3.2 % of 4 cores');

    made.stop();
    transport.reading = reading(104, { cpu_used_pct: 50 });
    await vi.advanceTimersByTimeAsync(10_000);
    expect(values()[0]).toBe('3.2 % of 4 cores');
  });

  it('shows the newest of the stored readings until a live one comes', () => {
    const { view: made, values } = view();
    made.fill([reading(90), reading(95, { cpu_used_pct: 88 })]);
    expect(values()[0]).toBe('88 % of 1 core');
  });

  it('leaves out a reading that is older than what it shows', async () => {
    const { transport, view: made, values } = view();
    made.fill([reading(95, { cpu_used_pct: 88 })]);
    transport.reading = reading(94, { cpu_used_pct: 1 });
    made.start();
    await vi.advanceTimersByTimeAsync(0);
    expect(values()[0]).toBe('88 % of 1 core');
  });

  it('says why there is no reading, and shows the next one that comes', async () => {
    const { transport, view: made, values, message } = view();
    made.start();
    await vi.advanceTimersByTimeAsync(0);
    expect(message()?.textContent).toBe('The sandbox is gone.');
    expect(message()?.hidden).toBe(false);

    transport.reading = reading(100);
    await vi.advanceTimersByTimeAsync(2000);
    expect(message()?.hidden).toBe(true);
    expect(values()[0]).toBe('12 % of 1 core');
  });

  it('asks nothing of a paused sandbox, which that may wake, and goes on when it runs', async () => {
    const { transport, node } = view();
    let isPaused = true;
    const asked = vi.spyOn(transport, 'metrics');
    transport.reading = reading(100);
    const paused = new MetricsView(node, [{ name: '', transport, isPaused: () => isPaused }]);
    paused.start();
    await vi.advanceTimersByTimeAsync(10_000);
    expect(asked).not.toHaveBeenCalled();
    expect(paused.node.textContent).toContain('The sandbox is paused.');

    isPaused = false;
    await vi.advanceTimersByTimeAsync(2000);
    expect(asked).toHaveBeenCalledTimes(1);
    paused.dispose();
  });

  it('does not read in a hidden page', async () => {
    const { transport, view: made, values } = view();
    vi.spyOn(document, 'visibilityState', 'get').mockReturnValue('hidden');
    transport.reading = reading(100);
    made.start();
    await vi.advanceTimersByTimeAsync(10_000);
    expect(values()[0]).toBe('–');
  });

  it('leaves nothing behind when it is disposed', async () => {
    const { transport, view: made, node } = view();
    transport.reading = reading(100);
    made.start();
    made.dispose();
    made.start();
    await vi.advanceTimersByTimeAsync(10_000);
    expect(node.childElementCount).toBe(0);
  });
});

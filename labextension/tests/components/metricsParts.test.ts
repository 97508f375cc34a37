import { describe, expect, it } from 'vitest';

import { ceiling, measures } from '../../src/components/metrics/measures';
import { MetricsChart } from '../../src/components/metrics/metricsChart';
import { metricsCsv } from '../../src/components/metrics/metricsCsv';
import { markerLabel, markersOf } from '../../src/components/metrics/metricsMarkers';
import { sparkline } from '../../src/components/metrics/sparkline';
import type { IReading } from '../../src/protocol/runtime';
import { installCanvas } from '../fakeCanvas';

const reading = (ts: number, cpu = 10): IReading => ({
  ts,
  cpu_count: 2,
  cpu_used_pct: cpu,
  mem_used: 2 ** 20,
  mem_total: 2 ** 30,
  mem_cache: 0,
  disk_used: 1,
  disk_total: 0
});

function chart(names?: readonly string[]) {
  installCanvas();
  const node = document.createElement('div');
  document.body.replaceChildren(node);
  const made = new MetricsChart(node, names);
  const value = () => node.querySelector('.sbx-MetricsChart-value')?.textContent;
  const times = () => made.shown().map(({ readings }) => readings.map(({ ts }) => ts));
  return { node, made, value, times };
}

describe('the charts', () => {
  it('compare several sandboxes, with a legend and each one’s value', () => {
    const { node, made, value } = chart(['one', 'two']);
    made.pushTo(0, [reading(100, 12)]);
    made.pushTo(1, [reading(101, 34)]);
    expect([...node.querySelectorAll('.sbx-MetricsChart-legend li')].map(item => item.textContent)).toEqual(['one', 'two']);
    expect(value()).toBe('one 12 %, two 34 %');
  });

  it('show the last minutes, or as many as are chosen, and what was dragged over', () => {
    const { made, times } = chart();
    let isZoomed: boolean | null = null;
    made.onZoom = zoomed => (isZoomed = zoomed);
    made.push(reading(100), reading(1000), reading(1200));
    expect(times()).toEqual([[1000, 1200]]);

    made.setSpan(3600);
    expect(times()).toEqual([[100, 1000, 1200]]);

    made.zoomTo(900, 1100);
    expect([times(), isZoomed]).toEqual([[[1000]], true]);
    made.zoomTo(900, 901);
    expect(times()).toEqual([[1000]]);
    made.resetZoom();
    expect([times()[0]?.length, isZoomed]).toEqual([3, false]);
  });

  it('put stored readings where there are no live ones, without repeating any', () => {
    const { made, times } = chart();
    made.push(reading(1000), reading(1002), reading(1060));
    const stored = [990, 995, 1000, 1005, 1010, 1055, 1060, 1065].map(ts => reading(ts));
    made.fill(0, stored);
    const all = [990, 995, 1000, 1002, 1010, 1055, 1060, 1065];
    expect(times()).toEqual([all]);
    made.fill(0, stored);
    expect(times()).toEqual([all]);
  });

  it('take markers and the limit, and leave nothing behind', () => {
    const { node, made } = chart();
    made.push(reading(1000), reading(1100));
    made.setMarkers([{ kind: 'start', time: 1000 }, { kind: 'memory', time: 1050 }]);
    made.setLimit(true);
    made.dispose();
    expect(node.childElementCount).toBe(0);
  });
});

describe('the scale', () => {
  const [cpu, memory] = measures();

  it('reaches above the limit where the limit is shown', () => {
    expect(cpu && ceiling(10, 200, cpu, true)).toBe(210);
    expect(cpu && ceiling(10, 200, cpu, false)).toBe(20);
    expect(memory && ceiling(NaN, 0, memory, true)).toBe(1);
  });
});

describe('markers', () => {
  it('are what the log tells of starts, pauses and shortages', () => {
    const log = ['Sandbox started', 'chatter', 'Sandbox paused', 'Sandbox resumed', 'A process was killed: out of memory'];
    const entries = log.map((message, at) => ({ message, level: 'info' as const, timestamp: new Date(at * 1000).toISOString() }));
    expect(markersOf(entries)).toEqual([
      { kind: 'start', time: 0 },
      { kind: 'pause', time: 2 },
      { kind: 'resume', time: 3 },
      { kind: 'memory', time: 4 }
    ]);
    expect(markersOf([{ message: 'Sandbox started', level: 'info', timestamp: 'never' }])).toEqual([]);
    expect((['start', 'pause', 'resume', 'memory', 'snapshot'] as const).map(markerLabel)).toEqual([
      'started',
      'paused',
      'resumed',
      'out of memory',
      'snapshot'
    ]);
  });
});

describe('the exported table', () => {
  it('has a line for each reading, and names that no spreadsheet runs', () => {
    const lines = metricsCsv([{ name: '=cmd("x")', readings: [reading(0), reading(60)] }]).split('\r\n');
    expect(lines[0]).toBe('time,sandbox,cpu_used_pct,cpu_count,mem_used,mem_total,mem_cache,disk_used,disk_total');
    expect(lines[1]).toBe(`1970-01-01T00:00:00.000Z,"'=cmd(""x"")",10,2,1048576,1073741824,0,1,0`);
    expect(lines).toHaveLength(4);
  });
});

describe('a sparkline', () => {
  it('runs from left to right, with 0 at the bottom and nothing above the top', () => {
    expect(sparkline([0, 50, 400], 100, 40, 10)).toBe('0,10 20,5 40,0');
    expect(sparkline([5], 0, 40, 10)).toBe('0,10');
    expect(sparkline([], 100, 40, 10)).toBe('');
  });
});

import uPlot from 'uplot';

import type { IReading } from '../protocol/runtime';
import { element } from './dom';
import { formatBytes } from './format';
import { trans } from './translation';
import type { ThemeRole } from './theme';
import { onThemeChange, themeValue } from './theme';

/** The time span of the chart, in seconds. */
const WINDOW = 300;
/** Readings kept; one per second fills the window. */
const MAX_READINGS = 600;
/** The least height of a plot, in pixels; lower, its axes run into each other. */
const MIN_HEIGHT = 48;
const AXIS_WIDTH = 64;

interface IMeasure {
  readonly title: string;
  readonly role: ThemeRole;
  readonly value: (reading: IReading) => number;
  readonly limit: (reading: IReading) => number;
  readonly text: (value: number, limit: number) => string;
  readonly tick: (value: number) => string;
  /** The smallest part of the limit that the scale covers, so that noise does not look like load. */
  readonly least: number;
}

const ofBytes = (value: number, limit: number): string =>
  limit > 0 ? trans.__('%1 of %2', formatBytes(value), formatBytes(limit)) : formatBytes(value);

/** Called for each chart, since the language is not known when the module is loaded. */
const measures = (): readonly IMeasure[] => [
  {
    title: trans.__('CPU'),
    role: 'cpu',
    value: reading => reading.cpu_used_pct,
    limit: reading => Math.max(1, reading.cpu_count) * 100,
    text: (value, limit) =>
      limit === 100
        ? trans.__('%1 % of 1 core', value.toFixed(value < 10 ? 1 : 0))
        : trans.__('%1 % of %2 cores', value.toFixed(value < 10 ? 1 : 0), limit / 100),
    tick: value => `${value} %`,
    least: 0.1
  },
  {
    title: trans.__('Memory'),
    role: 'memory',
    value: reading => reading.mem_used,
    limit: reading => reading.mem_total,
    text: ofBytes,
    tick: formatBytes,
    least: 0.01
  },
  {
    title: trans.__('Disk'),
    role: 'disk',
    value: reading => reading.disk_used,
    limit: reading => reading.disk_total,
    text: ofBytes,
    tick: formatBytes,
    least: 0.01
  }
];

/** CPU, memory and disk of one sandbox over the last minutes, one plot each. */
export class MetricsChart {
  constructor(readonly node: HTMLElement) {
    node.classList.add('sbx-MetricsChart');
    this.plots = measures().map(measure => new MeasurePlot(node, measure));
    this.observer = new ResizeObserver(() => {
      this.plots.forEach(plot => {
        plot.fit();
      });
    });
    this.observer.observe(node);
    this.stopTheme = onThemeChange(() => {
      this.plots.forEach(plot => {
        plot.redraw();
      });
    });
  }

  /** Adds readings; ignores those that are not newer than the last one. */
  push(...readings: IReading[]): void {
    const last = this.readings.at(-1)?.ts ?? -Infinity;
    const fresh = readings.filter(reading => reading.ts > last);
    if (fresh.length === 0) {
      return;
    }
    this.readings = [...this.readings, ...fresh].slice(-MAX_READINGS);
    this.plots.forEach(plot => {
      plot.show(this.readings);
    });
  }

  dispose(): void {
    this.stopTheme();
    this.observer.disconnect();
    this.plots.forEach(plot => {
      plot.dispose();
    });
    this.node.replaceChildren();
  }

  private readings: IReading[] = [];
  private readonly plots: readonly MeasurePlot[];
  private readonly observer: ResizeObserver;
  private readonly stopTheme: () => void;
}

class MeasurePlot {
  constructor(
    parent: HTMLElement,
    private readonly measure: IMeasure
  ) {
    this.readout = element('span', 'sbx-MetricsChart-value', {}, '–');
    this.area = element('div', 'sbx-MetricsChart-plot', { 'aria-hidden': 'true' });
    const title = element('span', `sbx-MetricsChart-title sbx-mod-${measure.role}`, {}, measure.title);
    const header = element('div', 'sbx-MetricsChart-header', {}, title, this.readout);
    this.node = element('section', 'sbx-MetricsChart-measure', { 'aria-label': measure.title }, header, this.area);
    parent.append(this.node);
    this.plot = new uPlot(this.options(), [[], []], this.area);
  }

  show(readings: readonly IReading[]): void {
    this.limits = readings.map(this.measure.limit);
    const times = readings.map(reading => reading.ts);
    this.plot.setData([times, readings.map(this.measure.value)]);
    this.showValue(this.plot.cursor.idx ?? null);
  }

  fit(): void {
    this.plot.setSize(this.size());
  }

  redraw(): void {
    this.plot.redraw(false, true);
  }

  dispose(): void {
    this.plot.destroy();
    this.node.remove();
  }

  private size(): { width: number; height: number } {
    return {
      width: Math.max(120, this.area.clientWidth || 320),
      height: Math.max(MIN_HEIGHT, this.area.clientHeight || 140)
    };
  }

  /** Shows the reading under the pointer with its time, else the newest, as text. */
  private showValue(index: number | null): void {
    const [times, values] = this.plot.data;
    const at = index ?? times.length - 1;
    const value = values?.[at];
    const limit = this.limits[at];
    const text = typeof value === 'number' && limit !== undefined ? this.measure.text(value, limit) : '–';
    const time = times[at];
    this.readout.textContent = index === null || time === undefined ? text : `${wholeClock(time)}  ${text}`;
  }

  private options(): uPlot.Options {
    const color = (role: ThemeRole) => () => themeValue(this.node, role);
    const font = () => `11px ${themeValue(this.node, 'sans')}`;
    const axis = {
      stroke: color('muted'),
      grid: { stroke: color('grid'), width: 1 },
      ticks: { show: false },
      get font() {
        return font();
      }
    };
    return {
      ...this.size(),
      legend: { show: false },
      cursor: { y: false, drag: { x: false, y: false }, sync: { key: 'sbx-metrics' } },
      hooks: {
        setCursor: [
          plot => {
            this.showValue(plot.cursor.idx ?? null);
          }
        ]
      },
      scales: {
        x: { time: true, range: (_, __, max) => [(max || Date.now() / 1000) - WINDOW, max || Date.now() / 1000] },
        y: { range: (_, __, max) => [0, this.ceiling(max)] }
      },
      series: [
        {},
        {
          label: this.measure.title,
          stroke: color(this.measure.role),
          fill: () => translucent(themeValue(this.node, this.measure.role)),
          width: 1.5,
          points: { show: false }
        }
      ],
      axes: [
        { ...axis, space: 72, size: 24, grid: { show: false }, values: (_, splits) => splits.map(clock) },
        {
          ...axis,
          size: AXIS_WIDTH,
          space: 28,
          splits: plot => quarters(plot.scales['y']?.max ?? 1),
          values: (_, splits) => splits.map(this.measure.tick)
        }
      ]
    };
  }

  /** The end of the scale: the limit of the sandbox, or less while use is small, so that it can be seen. */
  private ceiling(max: number): number {
    const limit = this.limits.at(-1) ?? 0;
    const used = Number.isFinite(max) ? max : 0;
    const least = limit > 0 ? limit * this.measure.least : 1;
    const wanted = Math.max(used * 1.5, least);
    return niceCeiling(limit > 0 && wanted > limit ? Math.max(limit, used) : wanted, this.measure.role === 'cpu');
  }

  readonly node: HTMLElement;
  private readonly area: HTMLElement;
  private readonly readout: HTMLElement;
  private readonly plot: uPlot;
  private limits: number[] = [];
}

const quarters = (max: number): number[] => [0, max / 2, max];

/** Rounds up to 1, 2 or 5 times a power of ten, or for sizes to a power of two. */
export function niceCeiling(value: number, decimal: boolean): number {
  if (value <= 0) {
    return 1;
  }
  if (!decimal) {
    return 2 ** Math.ceil(Math.log2(value));
  }
  const power = 10 ** Math.floor(Math.log10(value));
  const step = [1, 2, 5, 10].find(candidate => candidate * power >= value) ?? 10;
  return step * power;
}

/** Formats a Unix time as hours, minutes and seconds. */
const wholeClock = (seconds: number): string => new Date(seconds * 1000).toTimeString().slice(0, 8);

/** Formats a Unix time as hours and minutes, with seconds unless they are zero. */
function clock(seconds: number): string {
  const [hours, minutes, rest] = wholeClock(seconds).split(':');
  return rest === '00' ? `${hours}:${minutes}` : `${hours}:${minutes}:${rest}`;
}

/** The colour at 14 % opacity, whatever notation the theme uses. */
function translucent(color: string): string {
  return `color-mix(in srgb, ${color} 14%, transparent)`;
}

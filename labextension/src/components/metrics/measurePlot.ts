import uPlot from 'uplot';

import type { IReading } from '../../protocol/runtime';
import { element } from '../dom';
import type { IMeasure } from './measures';
import { ceiling } from './measures';
import type { IMarker } from './metricsMarkers';
import { markerLabel } from './metricsMarkers';
import type { ThemeRole } from '../theme';
import { SERIES_ROLES, themeValue } from '../theme';

/** The least height of a plot, in pixels; lower, its axes run into each other. */
const MIN_HEIGHT = 48;
const AXIS_WIDTH = 64;
/** Dashes of the lines once the colours are used up. */
const DASHES: readonly (number[] | undefined)[] = [undefined, [6, 3], [2, 3]];

/** State shared by all plots of a chart; the plots read it when they draw. */
export interface IChartState {
  /** The first and last second that is shown. */
  readonly range: () => readonly [number, number];
  readonly markers: () => readonly IMarker[];
  readonly showsLimit: () => boolean;
  /** Called with the seconds that were dragged over. */
  readonly zoom: (from: number, to: number) => void;
  readonly resetZoom: () => void;
}

/** The plot of one measure with a line for each sandbox. */
export class MeasurePlot {
  constructor(
    parent: HTMLElement,
    private readonly measure: IMeasure,
    private readonly names: readonly string[],
    private readonly state: IChartState
  ) {
    this.readout = element('span', 'sbx-MetricsChart-value', {}, '–');
    this.area = element('div', 'sbx-MetricsChart-plot', { 'aria-hidden': 'true' });
    const title = element('span', `sbx-MetricsChart-title sbx-mod-${measure.role}`, {}, measure.title);
    const header = element('div', 'sbx-MetricsChart-header', {}, title, this.readout);
    this.node = element('section', 'sbx-MetricsChart-measure', { 'aria-label': measure.title }, header, this.area);
    parent.append(this.node);
    this.plot = new uPlot(this.options(), [[], ...names.map(() => [])] as uPlot.AlignedData, this.area);
  }

  /** Shows the readings of each sandbox. */
  show(series: readonly (readonly IReading[])[]): void {
    this.limit = Math.max(0, ...series.map(readings => limitOf(this.measure, readings)));
    const tables = series.map(
      readings => [readings.map(({ ts }) => ts), readings.map(this.measure.value)] as uPlot.AlignedData
    );
    const [only] = tables;
    this.plot.setData(tables.length === 1 && only !== undefined ? only : uPlot.join(tables));
    this.showValue(this.plot.cursor.idx ?? null);
  }

  /** Applies another range of times. */
  rescale(): void {
    const [min, max] = this.state.range();
    this.plot.setScale('x', { min, max });
  }

  fit(): void {
    this.plot.setSize(this.size());
  }

  redraw(): void {
    this.plot.redraw(true, true);
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

  /** Shows the readings under the pointer with their time, else the newest, as text. */
  private showValue(index: number | null): void {
    const [times, ...lines] = this.plot.data;
    const at = index ?? times.length - 1;
    const values = lines.map(line => (index === null ? lastNumber(line) : line[at]));
    const texts = values.map((value, line) => {
      const text = isNumber(value) ? this.text(value) : '–';
      return this.names.length === 1 ? text : `${this.names[line] ?? ''} ${text}`;
    });
    const time = times[at];
    const text = texts.join(', ');
    this.readout.textContent = index === null || time === undefined ? text : `${wholeClock(time)}  ${text}`;
    this.readout.title = this.readout.textContent;
  }

  /** A value, with the limit where there is only one sandbox. */
  private text(value: number): string {
    return this.names.length === 1 ? this.measure.text(value, this.limit) : this.measure.tick(Math.round(value * 10) / 10);
  }

  private options(): uPlot.Options {
    return {
      ...this.size(),
      legend: { show: false },
      cursor: {
        y: false,
        drag: { x: true, y: false, setScale: false },
        sync: { key: 'sbx-metrics' },
        bind: { dblclick: () => () => { this.state.resetZoom(); return null; } }
      },
      hooks: {
        setCursor: [plot => { this.showValue(plot.cursor.idx ?? null); }],
        setSelect: [plot => { this.zoomTo(plot); }],
        draw: [plot => { this.drawLimit(plot); this.drawMarkers(plot); }]
      },
      scales: {
        x: { time: true, range: () => [...this.state.range()] },
        y: { range: (_, __, max) => [0, ceiling(max, this.limit, this.measure, this.state.showsLimit())] }
      },
      series: [{}, ...this.names.map((name, line) => this.line(name, line))],
      axes: this.axes()
    };
  }

  private line(label: string, line: number): uPlot.Series {
    const role = roleOf(this.names.length, line, this.measure.role);
    const dash = DASHES[Math.floor(line / SERIES_ROLES.length) % DASHES.length];
    return {
      label,
      stroke: () => themeValue(this.node, role),
      ...(this.names.length === 1 ? { fill: () => translucent(themeValue(this.node, role)) } : {}),
      ...(dash === undefined ? {} : { dash }),
      width: 1.5,
      spanGaps: this.names.length > 1,
      points: { show: false }
    };
  }

  private axes(): uPlot.Axis[] {
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
    return [
      { ...axis, space: 72, size: 24, grid: { show: false }, values: (_, splits) => splits.map(clock) },
      {
        ...axis,
        size: AXIS_WIDTH,
        space: 28,
        splits: plot => this.ticks(plot.scales['y']?.max ?? 1),
        values: (_, splits) => splits.map(this.measure.tick)
      }
    ];
  }

  private ticks(max: number): number[] {
    const top = this.state.showsLimit() && this.limit > 0 && this.limit <= max ? this.limit : max;
    return [0, top / 2, top];
  }

  private zoomTo(plot: uPlot): void {
    const { left, width } = plot.select;
    // A drag of a few pixels was meant as a click.
    if (width > 4) {
      this.state.zoom(plot.posToVal(left, 'x'), plot.posToVal(left + width, 'x'));
    }
    plot.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
  }

  private drawLimit(plot: uPlot): void {
    if (!this.state.showsLimit() || this.limit <= 0) {
      return;
    }
    const y = Math.round(plot.valToPos(this.limit, 'y', true));
    drawLine(plot, themeValue(this.node, 'limit'), plot.bbox.left, y, plot.bbox.left + plot.bbox.width, y);
  }

  private drawMarkers(plot: uPlot): void {
    const [min, max] = this.state.range();
    const { left, top, width, height } = plot.bbox;
    const scale = devicePixelRatio;
    let free = 0;
    for (const { time, kind } of this.state.markers().filter(marker => marker.time >= min && marker.time <= max)) {
      const x = Math.round(plot.valToPos(time, 'x', true));
      drawLine(plot, themeValue(this.node, kind === 'memory' ? 'limit' : 'muted'), x, top, x, top + height);
      plot.ctx.fillStyle = themeValue(this.node, 'muted');
      plot.ctx.font = `${10 * scale}px ${themeValue(this.node, 'sans')}`;
      plot.ctx.textBaseline = 'top';
      plot.ctx.textAlign = 'left';
      const label = markerLabel(kind);
      const size = plot.ctx.measureText(label).width;
      // A label that would run over the one before, or out of the plot, is left out; the line stays.
      if (x > free && x + size + 4 * scale < left + width) {
        plot.ctx.fillText(label, x + 4 * scale, top + 2 * scale);
        free = x + size + 8 * scale;
      }
    }
  }

  readonly node: HTMLElement;
  private readonly area: HTMLElement;
  private readonly readout: HTMLElement;
  private readonly plot: uPlot;
  private limit = 0;
}

/** The colour of a line: that of the measure if it is alone, else one for each sandbox. */
export function roleOf(count: number, line: number, alone: ThemeRole): ThemeRole {
  return count === 1 ? alone : (SERIES_ROLES[line % SERIES_ROLES.length] ?? alone);
}

function limitOf(measure: IMeasure, readings: readonly IReading[]): number {
  const last = readings.at(-1);
  return last === undefined ? 0 : measure.limit(last);
}

function drawLine(plot: uPlot, color: string, fromX: number, fromY: number, toX: number, toY: number): void {
  const { ctx } = plot;
  ctx.save();
  ctx.strokeStyle = color;
  ctx.lineWidth = devicePixelRatio;
  ctx.setLineDash([4 * devicePixelRatio, 4 * devicePixelRatio]);
  ctx.beginPath();
  ctx.moveTo(fromX, fromY);
  ctx.lineTo(toX, toY);
  ctx.stroke();
  ctx.restore();
}

const isNumber = (value: number | null | undefined): value is number => typeof value === 'number';

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

/** The last value of a line; joined lines have gaps where another one has a reading. */
function lastNumber(line: ArrayLike<number | null | undefined>): number | undefined {
  for (let at = line.length - 1; at >= 0; at -= 1) {
    const value = line[at];
    if (isNumber(value)) {
      return value;
    }
  }
  return undefined;
}

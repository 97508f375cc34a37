import type { IReading } from '../../protocol/runtime';
import { element } from '../dom';
import { MeasurePlot, roleOf } from './measurePlot';
import { measures } from './measures';
import type { INamedReadings } from './metricsCsv';
import type { IMarker } from './metricsMarkers';
import { onThemeChange, themeValue } from '../theme';

/** The time span of the chart at first, in seconds. */
export const WINDOW = 300;
/** Readings kept of each sandbox: six hours of the stored ones, one each five seconds. */
const MAX_READINGS = 5000;
/** A stored reading that is as near as this to a live one adds nothing, in seconds. */
const NEAR = 3;
/** The shortest span that zooming gives, in seconds. */
const SHORTEST = 10;

/** CPU, memory and disk of one or several sandboxes over the last minutes, one plot each. */
export class MetricsChart {
  /** `names` has one for each sandbox; they are shown where there are several. */
  constructor(
    readonly node: HTMLElement,
    private readonly names: readonly string[] = ['']
  ) {
    node.classList.add('sbx-MetricsChart');
    this.series = names.map(() => []);
    const plots = element('div', 'sbx-MetricsChart-plots');
    if (names.length > 1) {
      node.append(this.legend());
    }
    node.append(plots);
    const state = {
      range: () => this.range(),
      markers: () => this.marked,
      showsLimit: () => this.limitShown,
      zoom: (from: number, to: number) => { this.zoomTo(from, to); },
      resetZoom: () => { this.resetZoom(); }
    };
    this.plots = measures().map(measure => new MeasurePlot(plots, measure, names, state));
    this.observer = new ResizeObserver(() => {
      this.plots.forEach(plot => {
        plot.fit();
      });
    });
    this.observer.observe(node);
    this.stopTheme = onThemeChange(() => {
      this.redraw();
    });
  }

  /** Called when a part is enlarged, and when all is shown again. */
  onZoom: (isZoomed: boolean) => void = () => undefined;

  /** Adds readings of the only, or first, sandbox; ignores those that are not newer than its last one. */
  push(...readings: IReading[]): void {
    this.pushTo(0, readings);
  }

  /** Adds readings of one sandbox; ignores those that are not newer than its last one. */
  pushTo(at: number, readings: readonly IReading[]): void {
    const known = this.series[at] ?? [];
    const last = known.at(-1)?.ts ?? -Infinity;
    const fresh = readings.filter(reading => reading.ts > last);
    if (fresh.length > 0) {
      this.series[at] = [...known, ...fresh].slice(-MAX_READINGS);
      this.show();
    }
  }

  /** Puts stored readings, oldest first, where one sandbox has no live ones. */
  fill(at: number, readings: readonly IReading[]): void {
    const known = this.series[at] ?? [];
    const all = [...known, ...inGaps(known, readings)];
    this.series[at] = all.sort((one, other) => one.ts - other.ts).slice(-MAX_READINGS);
    this.show();
  }

  /** The readings of each sandbox that are in the span that is shown. */
  shown(): readonly INamedReadings[] {
    const [from, to] = this.range();
    return this.series.map((readings, at) => ({
      name: this.names[at] ?? '',
      readings: readings.filter(({ ts }) => ts >= from && ts <= to)
    }));
  }

  /** Shows so many of the last seconds. */
  setSpan(seconds: number): void {
    this.span = seconds;
    this.resetZoom();
  }

  setMarkers(markers: readonly IMarker[]): void {
    this.marked = markers;
    this.redraw();
  }

  /** Whether the scales reach to the limits, which have a line then. */
  setLimit(isShown: boolean): void {
    this.limitShown = isShown;
    this.show();
    this.redraw();
  }

  zoomTo(from: number, to: number): void {
    if (to - from >= SHORTEST) {
      this.zoomed = [from, to];
      this.rescale();
    }
  }

  resetZoom(): void {
    this.zoomed = null;
    this.rescale();
  }

  dispose(): void {
    this.stopTheme();
    this.observer.disconnect();
    this.plots.forEach(plot => {
      plot.dispose();
    });
    this.node.replaceChildren();
  }

  private range(): readonly [number, number] {
    if (this.zoomed !== null) {
      return this.zoomed;
    }
    const newest = Math.max(...this.series.map(readings => readings.at(-1)?.ts ?? -Infinity));
    const last = Number.isFinite(newest) ? newest : Date.now() / 1000;
    return [last - this.span, last];
  }

  private show(): void {
    this.plots.forEach(plot => {
      plot.show(this.series);
    });
  }

  private rescale(): void {
    this.onZoom(this.zoomed !== null);
    this.plots.forEach(plot => {
      plot.rescale();
    });
  }

  private redraw(): void {
    this.plots.forEach(plot => {
      plot.redraw();
    });
    this.swatches.forEach((swatch, at) => {
      swatch.style.background = themeValue(this.node, roleOf(this.names.length, at, 'cpu'));
    });
  }

  /** The names of the sandboxes with the colours of their lines. */
  private legend(): HTMLElement {
    const entries = this.names.map((name, at) => {
      const swatch = element('span', 'sbx-MetricsChart-swatch');
      swatch.style.background = themeValue(this.node, roleOf(this.names.length, at, 'cpu'));
      this.swatches.push(swatch);
      return element('li', '', { title: name }, swatch, name);
    });
    return element('ul', 'sbx-MetricsChart-legend', {}, ...entries);
  }

  private readonly series: IReading[][];
  private readonly plots: readonly MeasurePlot[];
  private readonly swatches: HTMLElement[] = [];
  private readonly observer: ResizeObserver;
  private readonly stopTheme: () => void;
  private marked: readonly IMarker[] = [];
  private limitShown = false;
  private zoomed: readonly [number, number] | null = null;
  private span = WINDOW;
}

/** The stored readings that are not near a known one; both lists begin with the oldest. */
function inGaps(known: readonly IReading[], stored: readonly IReading[]): readonly IReading[] {
  let at = 0;
  return stored.filter(({ ts }) => {
    while ((known[at]?.ts ?? Infinity) < ts - NEAR) {
      at += 1;
    }
    return (known[at]?.ts ?? Infinity) > ts + NEAR;
  });
}

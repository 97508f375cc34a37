import { messageOf, SandboxError } from '../../protocol/errors';
import type { IReading } from '../../protocol/runtime';
import { element } from '../dom';
import { trans } from '../translation';
import { MetricsChart } from './metricsChart';
import type { ISandboxTransport } from '../transport';

/** Milliseconds between two readings. */
const INTERVAL = 2000;
/** Factor by which the interval is longer for sandboxes that are not found: ended ones, or paused. */
const PATIENCE = 10;

/** A sandbox whose metrics are shown, and its name. */
export interface IMetricsSource {
  readonly name: string;
  readonly transport: Pick<ISandboxTransport, 'metrics'>;
  /** Whether it is paused: a paused sandbox is not asked, which may wake it. */
  isPaused?(): boolean | Promise<boolean>;
}

/** Reads metrics while the page is visible and shows them in a chart, or why they cannot be read. */
export class MetricsView {
  /** `source` has several sandboxes to compare them. */
  constructor(
    readonly node: HTMLElement,
    source: ISandboxTransport | readonly IMetricsSource[],
    private readonly interval = INTERVAL,
    private readonly onReading: (reading: IReading) => void = () => undefined
  ) {
    this.sources = 'metrics' in source ? [{ name: '', transport: source }] : source;
    node.classList.add('sbx-MetricsView');
    this.message = element('p', 'sbx-MetricsView-message', { role: 'status' }, trans.__('Waiting for the first reading…'));
    const area = element('div', 'sbx-MetricsView-chart');
    node.append(this.message, area);
    this.chart = new MetricsChart(
      area,
      this.sources.map(({ name }) => name)
    );
  }

  /** Shows stored readings of a sandbox where it has no live ones. */
  fill(readings: readonly IReading[], at = 0): void {
    this.chart.fill(at, readings);
  }

  start(): void {
    if (this.timer === null && !this.disposed) {
      this.timer = window.setTimeout(this.tick, 0);
    }
  }

  stop(): void {
    if (this.timer !== null) {
      window.clearTimeout(this.timer);
      this.timer = null;
    }
  }

  dispose(): void {
    this.disposed = true;
    this.stop();
    this.chart.dispose();
    this.node.replaceChildren();
  }

  private readonly tick = (): void => {
    void this.read().finally(() => {
      if (this.timer !== null) {
        const isGone = this.missing.size === this.sources.length;
        this.timer = window.setTimeout(this.tick, isGone ? PATIENCE * this.interval : this.interval);
      }
    });
  };

  private async read(): Promise<void> {
    if (document.visibilityState === 'hidden') {
      return;
    }
    const failures = (await Promise.all(this.sources.map((_, at) => this.readOne(at)))).filter(text => text !== null);
    if (!this.disposed) {
      this.message.textContent = failures.join(' ');
      this.message.hidden = failures.length === 0;
    }
  }

  /** Shows the next reading of a sandbox; returns why there is none. */
  private async readOne(at: number): Promise<string | null> {
    const source = this.sources[at];
    if (source === undefined) {
      return null;
    }
    this.missing.delete(at);
    const say = (text: string) => (source.name === '' ? text : `${source.name}: ${text}`);
    try {
      if ((await source.isPaused?.()) === true) {
        return say(trans.__('The sandbox is paused.'));
      }
      const reading = await source.transport.metrics();
      if (!this.disposed) {
        this.chart.pushTo(at, [reading]);
        this.onReading(reading);
      }
      return null;
    } catch (reason) {
      if (reason instanceof SandboxError && reason.code === 'not_found') {
        this.missing.add(at);
      }
      return say(messageOf(reason));
    }
  }

  private readonly message: HTMLElement;
  readonly chart: MetricsChart;
  private readonly sources: readonly IMetricsSource[];
  /** The sandboxes that were not found. */
  private readonly missing = new Set<number>();
  private timer: number | null = null;
  private disposed = false;
}

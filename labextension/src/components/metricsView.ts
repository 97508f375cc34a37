import { messageOf } from '../protocol/errors';
import type { IReading } from '../protocol/runtime';
import { element } from './dom';
import { trans } from './translation';
import { MetricsChart } from './metricsChart';
import type { ISandboxTransport } from './transport';

/** Milliseconds between two readings. */
const INTERVAL = 2000;

/** Reads metrics while the page is visible and shows them in a chart, or why they cannot be read. */
export class MetricsView {
  constructor(
    readonly node: HTMLElement,
    private readonly transport: ISandboxTransport,
    private readonly interval = INTERVAL
  ) {
    node.classList.add('sbx-MetricsView');
    this.message = element('p', 'sbx-MetricsView-message', { role: 'status' }, trans.__('Waiting for the first reading…'));
    const area = element('div', 'sbx-MetricsView-chart');
    node.append(this.message, area);
    this.chart = new MetricsChart(area);
  }

  /** Shows stored readings before the live ones. */
  prefill(readings: readonly IReading[]): void {
    this.chart.push(...readings);
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
        this.timer = window.setTimeout(this.tick, this.interval);
      }
    });
  };

  private async read(): Promise<void> {
    if (document.visibilityState === 'hidden') {
      return;
    }
    try {
      const reading = await this.transport.metrics();
      if (!this.disposed) {
        this.chart.push(reading);
        this.message.hidden = true;
      }
    } catch (reason) {
      this.message.textContent = messageOf(reason);
      this.message.hidden = false;
    }
  }

  private readonly message: HTMLElement;
  private readonly chart: MetricsChart;
  private timer: number | null = null;
  private disposed = false;
}

import type { Message } from '@lumino/messaging';
import { Widget } from '@lumino/widgets';

import { trans } from '../../components/translation';
import { MetricsView } from '../../components/metricsView';
import type { ServerTransport } from '../../components/serverTransport';
import { metricsIcon } from '../icons';

/** How many seconds of stored readings are shown at the start. */
const HISTORY = 300;

/** The metrics of one sandbox; reads them only while it is visible. */
export class MetricsWidget extends Widget {
  constructor(
    readonly sandboxId: string,
    name: string,
    private readonly transport: ServerTransport
  ) {
    super();
    this.id = `sbx-metrics-${sandboxId}`;
    this.addClass('sbx-MetricsWidget');
    this.title.label = trans.__('Metrics: %1', name);
    this.title.caption = trans.__('Metrics of sandbox %1', name);
    this.title.icon = metricsIcon;
    this.title.closable = true;
    this.node.tabIndex = -1;
  }

  override dispose(): void {
    this.view?.dispose();
    super.dispose();
  }

  protected override onAfterAttach(message: Message): void {
    super.onAfterAttach(message);
    if (this.view === null) {
      const heading = document.createElement('h2');
      heading.className = 'sbx-MetricsWidget-title';
      heading.textContent = this.title.caption;
      const node = document.createElement('div');
      this.node.append(heading, node);
      this.view = new MetricsView(node, this.transport);
      void this.prefill(this.view);
    }
  }

  protected override onAfterShow(message: Message): void {
    super.onAfterShow(message);
    this.view?.start();
  }

  protected override onAfterHide(message: Message): void {
    super.onAfterHide(message);
    this.view?.stop();
  }

  protected override onActivateRequest(): void {
    this.node.focus();
  }

  /** Starts live readings after the stored ones, since the chart ignores older readings. */
  private async prefill(view: MetricsView): Promise<void> {
    const now = Math.floor(Date.now() / 1000);
    try {
      view.prefill(await this.transport.history(now - HISTORY, now));
    } catch {
      // No message here: the live reading that follows fails the same way and shows why.
    }
    if (this.isVisible) {
      view.start();
    }
  }

  private view: MetricsView | null = null;
}

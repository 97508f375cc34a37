import type { CommandRegistry } from '@lumino/commands';
import type { Message } from '@lumino/messaging';
import { Widget } from '@lumino/widgets';

import { trans } from '../../components/translation';
import { messageOf } from '../../protocol/errors';
import { metricsIcon } from '../icons';
import type { Sandboxes } from '../sandboxes';
import type { MetricsContent } from './metricsContent';
import type { INamedSandbox } from './namedSandbox';

/** The metrics of one sandbox, or of several in the same charts; reads them only while it is visible. */
export class MetricsWidget extends Widget {
  constructor(
    readonly shown: readonly INamedSandbox[],
    private readonly sandboxes: Sandboxes,
    private readonly commands: CommandRegistry
  ) {
    super();
    const names = shown.map(({ name }) => name).join(', ');
    this.id = `sbx-metrics-${shown.map(({ sandboxId }) => sandboxId).join('-')}`;
    this.addClass('sbx-MetricsWidget');
    this.title.label = shown.length === 1 ? trans.__('Metrics: %1', names) : trans.__('Metrics of %1 sandboxes', shown.length);
    this.title.caption = trans.__('Metrics of %1', names);
    this.title.icon = metricsIcon;
    this.title.closable = true;
    this.node.tabIndex = -1;
  }

  override dispose(): void {
    this.content?.dispose();
    super.dispose();
  }

  protected override onAfterAttach(message: Message): void {
    super.onAfterAttach(message);
    if (!this.isLoading) {
      this.isLoading = true;
      void this.load();
    }
  }

  protected override onAfterShow(message: Message): void {
    super.onAfterShow(message);
    this.content?.start();
  }

  protected override onAfterHide(message: Message): void {
    super.onAfterHide(message);
    this.content?.stop();
  }

  protected override onActivateRequest(): void {
    this.node.focus();
  }

  /** The charts and their library are loaded when the first tab is opened. */
  private async load(): Promise<void> {
    try {
      const { MetricsContent } = await import('./metricsContent');
      if (this.isDisposed) {
        return;
      }
      this.content = new MetricsContent(this.node, this.shown, this.sandboxes, this.commands);
      if (this.isVisible) {
        this.content.start();
      }
    } catch (reason) {
      this.node.textContent = trans.__('The charts could not be loaded. %1', messageOf(reason));
    }
  }

  private content: MetricsContent | null = null;
  private isLoading = false;
}

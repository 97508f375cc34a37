import { MainAreaWidget } from '@jupyterlab/apputils';
import { Terminal } from '@jupyterlab/terminal';
import { terminalIcon, ToolbarButton } from '@jupyterlab/ui-components';
import type { Message } from '@lumino/messaging';
import type { ISignal } from '@lumino/signaling';
import { Signal } from '@lumino/signaling';
import { Widget } from '@lumino/widgets';

import { element } from '../components/dom';
import { trans } from '../components/language';
import { endIcon } from './icons';
import type { TerminalConnection } from './terminalConnection';

/** A sandbox terminal in the main area, with a line above it while it has no connection. */
export class TerminalWidget extends MainAreaWidget<Terminal> {
  constructor(
    readonly connection: TerminalConnection,
    readonly sandboxName: string,
    end: (widget: TerminalWidget) => void
  ) {
    const content = new Terminal(connection, { theme: 'inherit', shutdownOnClose: false });
    super({ content, reveal: content.ready });
    const name = new Widget({ node: element('span', 'sbx-TerminalWidget-name', { title: sandboxName }, sandboxName) });
    this.toolbar.addItem('name', name);
    this.endButton = new ToolbarButton({
      icon: endIcon,
      label: trans.__('End terminal'),
      tooltip: trans.__('End the shell and close this tab. Closing alone leaves it running.'),
      onClick: () => {
        end(this);
      }
    });
    this.toolbar.addItem('end', this.endButton);
    this.toolbar.node.setAttribute('aria-label', trans.__('Terminal'));
    this.addClass('sbx-TerminalWidget');
    this.title.icon = terminalIcon;
    this.title.caption = trans.__('Terminal in sandbox %1', sandboxName);
    this.title.label = sandboxName;
    this.banner = new Widget({ node: document.createElement('p') });
    this.banner.addClass('sbx-TerminalWidget-banner');
    this.banner.node.setAttribute('role', 'status');
    this.banner.hide();
    this.contentHeader.addWidget(this.banner);
    connection.connectionStatusChanged.connect(() => {
      this.onStatus();
    });
  }

  /** Emitted when the user closes the tab of a shell that goes on. */
  get left(): ISignal<this, void> {
    return this.leftSignal;
  }

  /** Closes the tab of a shell that is over, about which there is nothing to say. */
  finish(): void {
    this.isFinished = true;
    this.close();
  }

  protected override onCloseRequest(message: Message): void {
    const { place, isOver } = this.connection;
    if (!this.isFinished && !isOver && place.pid !== undefined) {
      this.leftSignal.emit();
    }
    super.onCloseRequest(message);
  }

  override dispose(): void {
    if (!this.isDisposed) {
      this.connection.dispose();
      super.dispose();
    }
  }

  private onStatus(): void {
    const { problem } = this.connection;
    this.banner.node.textContent = problem ?? '';
    this.banner.setHidden(problem === null);
    this.endButton.setHidden(this.connection.isOver);
  }

  private readonly leftSignal = new Signal<this, void>(this);
  private readonly endButton: ToolbarButton;
  private isFinished = false;
  private readonly banner: Widget;
}

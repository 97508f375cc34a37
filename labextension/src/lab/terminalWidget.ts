import { MainAreaWidget } from '@jupyterlab/apputils';
import { Terminal } from '@jupyterlab/terminal';
import { terminalIcon } from '@jupyterlab/ui-components';
import { Widget } from '@lumino/widgets';

import type { TerminalConnection } from './terminalConnection';

/** A sandbox terminal in the main area, with a line above it while it has no connection. */
export class TerminalWidget extends MainAreaWidget<Terminal> {
  constructor(
    readonly connection: TerminalConnection,
    readonly sandboxName: string
  ) {
    const content = new Terminal(connection, { theme: 'inherit', shutdownOnClose: false });
    super({ content, reveal: content.ready });
    this.toolbar.hide();
    this.addClass('sbx-TerminalWidget');
    this.title.icon = terminalIcon;
    this.title.caption = `Terminal in sandbox ${sandboxName}`;
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
  }

  private readonly banner: Widget;
}

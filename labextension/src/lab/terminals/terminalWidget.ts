import { MainAreaWidget } from '@jupyterlab/apputils';
import { Terminal } from '@jupyterlab/terminal';
import { terminalIcon, ToolbarButton } from '@jupyterlab/ui-components';
import type { Message } from '@lumino/messaging';
import type { ISignal } from '@lumino/signaling';
import { Signal } from '@lumino/signaling';
import { Widget } from '@lumino/widgets';

import { element } from '../../components/dom';
import { trans } from '../../components/translation';
import { visible } from '../../protocol/sandboxes';
import { endIcon, splitIcon } from '../icons';
import type { TerminalConnection } from './terminalConnection';
import type { TerminalPreferences } from './terminalPreferences';

/** The actions of the buttons of a terminal. */
export interface ITerminalActions {
  end(widget: TerminalWidget): void;
  /** Opens another terminal in the place of one whose shell has ended. */
  restart(widget: TerminalWidget): void;
  /** Resumes the sandbox of the terminal, which then goes on. */
  resume(widget: TerminalWidget): void;
  split(widget: TerminalWidget): void;
}

/** A sandbox terminal in the main area, with a message above it while it is not connected. */
export class TerminalWidget extends MainAreaWidget<Terminal> {
  constructor(
    readonly connection: TerminalConnection,
    readonly sandboxName: string,
    limits: string,
    preferences: TerminalPreferences,
    actions: ITerminalActions
  ) {
    const content = new Terminal(connection, { ...preferences.options, shutdownOnClose: false });
    super({ content, reveal: content.ready });
    const name = new Widget({ node: element('span', 'sbx-TerminalWidget-name', { title: [sandboxName, limits].filter(Boolean).join('\n') }, sandboxName) });
    this.toolbar.addItem('name', name);
    if (connection.isReadOnly) {
      const caption = trans.__('This view takes no keys; the terminal can be used in its other views.');
      const chip = element('span', 'sbx-Chip', { title: caption }, trans.__('Read only'));
      this.toolbar.addItem('read-only', new Widget({ node: element('span', 'sbx-TerminalWidget-chip', {}, chip) }));
    }
    this.viewers = new Widget({ node: element('span', 'sbx-TerminalWidget-chip') });
    this.viewers.hide();
    this.toolbar.addItem('viewers', this.viewers);
    this.toolbar.addItem(
      'split',
      new ToolbarButton({
        icon: splitIcon,
        tooltip: trans.__('Open another terminal beside this one'),
        onClick: () => {
          actions.split(this);
        }
      })
    );
    this.endButton = new ToolbarButton({
      icon: endIcon,
      label: trans.__('End terminal'),
      tooltip: trans.__('End the shell and close this tab. Closing alone leaves it running.'),
      onClick: () => {
        actions.end(this);
      }
    });
    this.endButton.setHidden(connection.isReadOnly);
    this.toolbar.addItem('end', this.endButton);
    this.toolbar.node.setAttribute('aria-label', trans.__('Terminal'));
    this.addClass('sbx-TerminalWidget');
    this.title.icon = terminalIcon;
    this.title.caption = trans.__('Terminal in sandbox %1', sandboxName);
    this.title.label = connection.name;
    this.message = element('p', '', { role: 'status' });
    this.remedyButton = element('button', 'sbx-Button sbx-mod-plain', { type: 'button' });
    this.remedyButton.addEventListener('click', () => {
      this.remedy(actions);
    });
    this.banner = new Widget({ node: element('div', '', {}, this.message, this.remedyButton) });
    this.banner.addClass('sbx-TerminalWidget-banner');
    this.banner.hide();
    this.contentHeader.addWidget(this.banner);
    connection.shownChanged.connect(() => {
      this.onShown();
    });
    connection.connectionStatusChanged.connect(() => {
      this.onStatus();
    });
    // Options can be set once the screen exists.
    void content.ready.then(() => {
      if (!content.isDisposed) {
        preferences.follow(content);
      }
    });
  }

  /** Shows the name of the terminal in the tab, and in the toolbar who else looks at it. */
  private onShown(): void {
    const { name, viewers } = this.connection.shown;
    const shownName = visible(name);
    this.title.label = shownName === '' ? this.connection.name : `${shownName} · ${this.sandboxName}`;
    this.viewers.setHidden(viewers.length < 2);
    const caption = viewers
      .map(({ user, readOnly }) => (readOnly ? trans.__('%1, watching', visible(user)) : visible(user)))
      .join('\n');
    const text = trans.__('%1 views', viewers.length);
    this.viewers.node.replaceChildren(element('span', 'sbx-Chip', { title: caption }, text));
  }

  /** Emitted when the user closes the tab of a shell that keeps running. */
  get closedWhileRunning(): ISignal<this, void> {
    return this.closedWhileRunningSignal;
  }

  /** Closes the tab of a shell that was ended, without the signal. */
  closeEnded(): void {
    this.isEnded = true;
    this.close();
  }

  protected override onCloseRequest(message: Message): void {
    const { pid, hasEnded } = this.connection;
    if (!this.isEnded && !hasEnded && pid !== undefined && !this.connection.isReadOnly) {
      this.closedWhileRunningSignal.emit();
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
    const { message, remedy } = this.connection;
    this.message.textContent = message ?? '';
    this.message.title = message ?? '';
    const label = { reconnect: trans.__('Try now'), restart: trans.__('New terminal'), resume: trans.__('Resume'), none: trans.__('Close tab') }[remedy];
    if (this.remedyButton.textContent !== label) {
      this.remedyButton.textContent = label;
    }
    this.banner.setHidden(message === null);
    this.endButton.setHidden(this.connection.hasEnded || this.connection.isReadOnly);
  }

  private remedy(actions: ITerminalActions): void {
    const { remedy } = this.connection;
    if (remedy === 'reconnect') {
      void this.connection.reconnect();
    } else if (remedy === 'restart') {
      actions.restart(this);
    } else if (remedy === 'resume') {
      actions.resume(this);
    } else {
      this.closeEnded();
    }
  }

  private readonly closedWhileRunningSignal = new Signal<this, void>(this);
  private readonly endButton: ToolbarButton;
  private readonly viewers: Widget;
  private isEnded = false;
  private readonly banner: Widget;
  private readonly message: HTMLElement;
  private readonly remedyButton: HTMLButtonElement;
}

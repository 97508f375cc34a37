import type { JupyterFrontEnd } from '@jupyterlab/application';
import type { WidgetTracker } from '@jupyterlab/apputils';
import type { IRunningSessions } from '@jupyterlab/running';
import { terminalIcon } from '@jupyterlab/ui-components';
import type { Message } from '@lumino/messaging';
import { MessageLoop } from '@lumino/messaging';
import { Signal } from '@lumino/signaling';
import type { Widget } from '@lumino/widgets';

import { trans } from '../../components/translation';
import type { ISandbox, ITerminalInfo } from '../../protocol/sandboxes';
import { displayName, terminalTitle } from '../../protocol/sandboxes';
import type { Sandboxes } from '../sandboxes';
import type { TerminalWidget } from './terminalWidget';
import { CommandIDs } from '../commandIds';
import { askAndEndShell, endShell } from './endTerminal';
import { listTerminals } from './terminalCalls';
import { TerminalLists } from './terminalLists';

/** The ids of the panels of running sessions, of JupyterLab and of Jupyter Notebook. */
const RUNNING_PANELS = ['jp-running-sessions', 'jp-running-sessions-tree'];

interface ISandboxTerminal {
  readonly sandboxId: string;
  readonly sandboxName: string;
  readonly info: ITerminalInfo;
}

/** Finds a panel of running sessions, which may be a part of another widget. */
function findPanel(widgets: Iterable<Widget>): Widget | null {
  for (const widget of widgets) {
    const found = RUNNING_PANELS.includes(widget.id) ? widget : findPanel(widget.children());
    if (found !== null) {
      return found;
    }
  }
  return null;
}

/** The terminals that run in sandboxes, also those without a tab, in the panel of running sessions. */
export class RunningTerminals implements IRunningSessions.IManager {
  constructor(
    private readonly app: JupyterFrontEnd,
    private readonly sandboxes: Sandboxes,
    private readonly tracker: WidgetTracker<TerminalWidget>
  ) {
    this.lists = new TerminalLists(sandboxId => listTerminals(sandboxes.api, sandboxId));
    tracker.widgetAdded.connect((_, { connection, disposed }) => {
      const refresh = () => void this.listOne(connection.sandboxId);
      connection.connectionStatusChanged.connect(refresh);
      connection.shownChanged.connect(refresh);
      disposed.connect(refresh);
    });
    void app.restored.then(() => {
      this.listWhenShown();
    });
  }

  running(): IRunningSessions.IRunningItem[] {
    return this.terminals.map(terminal => this.item(terminal));
  }

  refreshRunning(): void {
    void this.list();
  }

  shutdownAll(): void {
    // The panel has asked already.
    for (const terminal of this.terminals) {
      void this.end(terminal, endShell);
    }
  }

  /** Lists the terminals when the user looks at the panel of running sessions, not before. */
  private listWhenShown(): void {
    const panel = findPanel(['left', 'right', 'main'].flatMap(area => [...this.app.shell.widgets(area)]));
    if (panel === null) {
      return;
    }
    MessageLoop.installMessageHook(panel, (_, message: Message) => {
      if (message.type === 'after-show') {
        void this.list();
      }
      return true;
    });
    if (panel.isVisible) {
      void this.list();
    }
  }

  /** Lists the terminals of every running sandbox. */
  private async list(): Promise<void> {
    // Nothing else lists the sandboxes while their own panel is closed.
    await this.sandboxes.refresh();
    await this.lists.refresh(this.runningSandboxes().map(({ sandboxID }) => sandboxID));
    this.runningChanged.emit();
  }

  private async listOne(sandboxId: string): Promise<void> {
    // Its terminals lose their connections when a sandbox is paused; the question would wake it.
    if (this.sandboxes.stateOf(sandboxId) === 'paused') {
      return;
    }
    await this.lists.refreshOne(sandboxId);
    this.runningChanged.emit();
  }

  private runningSandboxes(): readonly ISandbox[] {
    return (this.sandboxes.items ?? []).filter(({ state }) => state === 'running');
  }

  private get terminals(): readonly ISandboxTerminal[] {
    return this.runningSandboxes().flatMap(sandbox =>
      this.lists
        .get(sandbox.sandboxID)
        .map(info => ({ sandboxId: sandbox.sandboxID, sandboxName: displayName(sandbox), info }))
    );
  }

  private item(terminal: ISandboxTerminal): IRunningSessions.IRunningItem {
    const { sandboxId, sandboxName, info } = terminal;
    return {
      label: () => trans.__('%1 in %2', terminalTitle(info), sandboxName),
      labelTitle: () => trans.__('Process %1 in sandbox %2', info.pid, sandboxId),
      icon: () => terminalIcon,
      open: () => {
        const shown = this.shown(terminal);
        if (shown === undefined) {
          void this.app.commands.execute(CommandIDs.openTerminal, { sandbox: sandboxId, pid: info.pid });
        } else {
          this.app.shell.activateById(shown.id);
        }
      },
      shutdown: () => void this.end(terminal, askAndEndShell)
    };
  }

  private async end(terminal: ISandboxTerminal, end: typeof askAndEndShell): Promise<void> {
    if (await end(this.sandboxes, terminal.sandboxId, terminal.info.pid, terminal.sandboxName)) {
      this.shown(terminal)?.closeEnded();
    }
    await this.listOne(terminal.sandboxId);
  }

  private shown({ sandboxId, info }: ISandboxTerminal): TerminalWidget | undefined {
    return this.tracker.find(
      ({ connection }) => connection.sandboxId === sandboxId && connection.pid === info.pid
    );
  }

  private readonly lists: TerminalLists;
  readonly name = trans.__('Sandbox terminals');
  readonly runningChanged = new Signal<this, void>(this);
  readonly shutdownLabel = trans.__('End');
  readonly shutdownAllLabel = trans.__('End All');
  readonly shutdownAllConfirmationText = trans.__('End every terminal of every sandbox, and what runs in it?');
}

import type { JupyterFrontEnd } from '@jupyterlab/application';
import type { WidgetTracker } from '@jupyterlab/apputils';
import type { IRunningSessions } from '@jupyterlab/running';
import { terminalIcon } from '@jupyterlab/ui-components';
import { Signal } from '@lumino/signaling';

import { trans } from '../../components/translation';
import type { ITerminalInfo } from '../../protocol/sandboxes';
import { displayName } from '../../protocol/sandboxes';
import type { Sandboxes } from '../sandboxes';
import type { TerminalWidget } from './terminalWidget';
import { CommandIDs } from '../commandIds';
import { endShell } from './endTerminal';

interface ISandboxTerminal {
  readonly sandboxId: string;
  readonly sandboxName: string;
  readonly info: ITerminalInfo;
}

/** The terminals that run in sandboxes, also those without a tab, in the panel of running sessions. */
export class RunningTerminals implements IRunningSessions.IManager {
  constructor(
    private readonly app: JupyterFrontEnd,
    private readonly sandboxes: Sandboxes,
    private readonly tracker: WidgetTracker<TerminalWidget>
  ) {
    const refresh = () => void this.list();
    tracker.widgetAdded.connect((_, widget) => {
      widget.connection.connectionStatusChanged.connect(refresh);
      widget.disposed.connect(refresh);
    });
  }

  running(): IRunningSessions.IRunningItem[] {
    return this.terminals.map(terminal => this.item(terminal));
  }

  refreshRunning(): void {
    void this.list();
  }

  shutdownAll(): void {
    for (const terminal of this.terminals) {
      void this.end(terminal);
    }
  }

  /** Lists the terminals of every running sandbox; one that cannot be asked has none. */
  private async list(): Promise<void> {
    if (this.sandboxes.items === null) {
      await this.sandboxes.refresh();
    }
    const running = (this.sandboxes.items ?? []).filter(({ state }) => state === 'running');
    const lists = await Promise.allSettled(
      running.map(async sandbox => {
        const found = await this.sandboxes.terminals(sandbox.sandboxID);
        return found.map(info => ({ sandboxId: sandbox.sandboxID, sandboxName: displayName(sandbox), info }));
      })
    );
    this.terminals = lists.flatMap(list => (list.status === 'fulfilled' ? list.value : []));
    this.runningChanged.emit();
  }

  private item(terminal: ISandboxTerminal): IRunningSessions.IRunningItem {
    const { sandboxId, sandboxName, info } = terminal;
    return {
      label: () => trans.__('%1 in %2', info.cmd ?? trans.__('terminal'), sandboxName),
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
      shutdown: () => void this.end(terminal)
    };
  }

  private async end(terminal: ISandboxTerminal): Promise<void> {
    if (await endShell(this.sandboxes, terminal.sandboxId, terminal.info.pid)) {
      this.shown(terminal)?.closeEnded();
    }
    await this.list();
  }

  private shown({ sandboxId, info }: ISandboxTerminal): TerminalWidget | undefined {
    return this.tracker.find(
      ({ connection }) => connection.sandboxId === sandboxId && connection.pid === info.pid
    );
  }

  private terminals: readonly ISandboxTerminal[] = [];
  readonly name = trans.__('Sandbox terminals');
  readonly runningChanged = new Signal<this, void>(this);
  readonly shutdownLabel = trans.__('End');
  readonly shutdownAllLabel = trans.__('End All');
  readonly shutdownAllConfirmationText = trans.__('End every terminal of every sandbox, and what runs in it?');
}

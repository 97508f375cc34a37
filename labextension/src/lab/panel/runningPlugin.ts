import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import type { IRunningSessions } from '@jupyterlab/running';
import { IRunningSessionManagers } from '@jupyterlab/running';
import { Signal } from '@lumino/signaling';

import { trans } from '../../components/translation';
import { messageOf } from '../../protocol/errors';
import type { ISandbox } from '../../protocol/sandboxes';
import { displayName, templateName } from '../../protocol/sandboxes';
import { sandboxIcon } from '../icons';
import type { Sandboxes } from '../sandboxes';
import { CommandIDs } from '../commandIds';
import { ISandboxes } from '../tokens';
import { notifyError } from '../notifications';

/** Sandboxes among JupyterLab's running sessions. */
export const runningPlugin: JupyterFrontEndPlugin<void> = {
  id: 'sbx-jupyter:running',
  description: 'Sandboxes in the panel of running sessions.',
  autoStart: true,
  requires: [ISandboxes],
  optional: [IRunningSessionManagers],
  activate: (app: JupyterFrontEnd, sandboxes: Sandboxes, managers: IRunningSessionManagers | null) => {
    managers?.add(new RunningSandboxes(app, sandboxes));
  }
};

class RunningSandboxes implements IRunningSessions.IManager {
  constructor(
    private readonly app: JupyterFrontEnd,
    private readonly sandboxes: Sandboxes
  ) {
    sandboxes.changed.connect(() => {
      this.runningChanged.emit();
    });
  }

  running(): IRunningSessions.IRunningItem[] {
    return (this.sandboxes.items ?? []).map(sandbox => this.item(sandbox));
  }

  refreshRunning(): void {
    void this.sandboxes.refresh();
  }

  shutdownAll(): void {
    void this.killAll();
  }

  private async killAll(): Promise<void> {
    const kills = (this.sandboxes.items ?? []).map(sandbox => this.sandboxes.kill(sandbox.sandboxID));
    for (const result of await Promise.allSettled(kills)) {
      if (result.status === 'rejected') {
        notifyError(trans.__('A sandbox could not be killed. %1', messageOf(result.reason)));
      }
    }
  }

  private item(sandbox: ISandbox): IRunningSessions.IRunningItem {
    const args = { sandbox: sandbox.sandboxID };
    return {
      label: () => displayName(sandbox),
      labelTitle: () => `${displayName(sandbox)}\n${sandbox.sandboxID}`,
      detail: () =>
        `${templateName(sandbox)}, ${sandbox.state === 'paused' ? trans.__('paused') : trans.__('running')}`,
      icon: () => sandboxIcon,
      open: () => void this.app.commands.execute(CommandIDs.openTerminal, args),
      shutdown: () => void this.app.commands.execute(CommandIDs.kill, args)
    };
  }

  readonly name = trans.__('Sandboxes');
  readonly runningChanged = new Signal<this, void>(this);
  readonly shutdownLabel = trans.__('Kill');
  readonly shutdownAllLabel = trans.__('Kill All');
  readonly shutdownAllConfirmationText = trans.__(
    'Kill every sandbox? Their processes end and their files are deleted. This cannot be undone.'
  );
}

import type { JupyterFrontEnd } from '@jupyterlab/application';
import type { WidgetTracker } from '@jupyterlab/apputils';
import { Notification } from '@jupyterlab/apputils';
import type { IMainMenu } from '@jupyterlab/mainmenu';
import type { CommandRegistry } from '@lumino/commands';
import type { ReadonlyPartialJSONObject } from '@lumino/coreutils';

import { trans } from '../../components/translation';
import { SandboxError, messageOf } from '../../protocol/errors';
import { describedBy } from '../panel/commands';
import { confirmEnd } from '../panel/dialogs';
import { endIcon } from '../icons';
import type { Sandboxes } from '../sandboxes';
import * as terminalCalls from './terminalCalls';
import type { TerminalWidget } from './terminalWidget';
import { CommandIDs } from '../commandIds';
import { notifyError } from '../notifications';

/** Selects the tab of a sandbox terminal. */
const TAB = '.lm-TabBar-tab[data-type="sbx-terminal"]';

/** Adds the command that ends a terminal, with its menu items; returns a function that does the same. */
export function addEndTerminalCommand(
  app: JupyterFrontEnd,
  sandboxes: Sandboxes,
  tracker: WidgetTracker<TerminalWidget>,
  menu: IMainMenu | null
): (widget: TerminalWidget) => void {
  const end = (widget: TerminalWidget) => void endTerminal(sandboxes, widget);
  const chosen = ({ inTabMenu }: ReadonlyPartialJSONObject): TerminalWidget | null => {
    // JupyterLab remembers the last menu for ever; elsewhere than in a menu it would name another terminal.
    const tab = inTabMenu === true ? app.contextMenuHitTest(node => node.matches(TAB)) : undefined;
    const id = tab?.dataset['id'];
    return tracker.find(widget => widget.id === id) ?? tracker.currentWidget;
  };
  app.commands.addCommand(CommandIDs.endTerminal, {
    label: trans.__('End Sandbox Terminal'),
    caption: trans.__('End the shell and close its tab; closing alone leaves it running'),
    icon: endIcon,
    isEnabled: args => chosen(args) !== null,
    describedBy: describedBy({
      inTabMenu: { type: 'boolean', description: 'Ends the terminal whose tab has the open menu, not the one in front.' }
    }),
    execute: async args => {
      const widget = chosen(args);
      if (widget !== null) {
        await endTerminal(sandboxes, widget);
      }
    }
  });
  app.contextMenu.addItem({ command: CommandIDs.endTerminal, args: { inTabMenu: true }, selector: TAB, rank: 10 });
  app.contextMenu.addItem({ command: CommandIDs.endTerminal, selector: '.sbx-TerminalWidget', rank: 10 });
  menu?.fileMenu.closeAndCleaners.add({
    id: CommandIDs.endTerminal,
    isEnabled: widget => tracker.currentWidget === widget
  });
  return end;
}

/** Ends a shell and what runs in it; tells the user if it cannot. Returns whether it has ended. */
export async function endShell(sandboxes: Sandboxes, sandboxId: string, pid: number): Promise<boolean> {
  try {
    await terminalCalls.endTerminal(sandboxes.api, sandboxId, pid);
    return true;
  } catch (reason) {
    return isGone(reason);
  }
}

/** Whether a terminal no longer exists, and so has ended as wanted; tells the user of any other failure. */
function isGone(reason: unknown): boolean {
  if (reason instanceof SandboxError && reason.code === 'not_found') {
    return true;
  }
  notifyError(trans.__('The terminal could not be ended. %1', messageOf(reason)));
  return false;
}

/** Ends the shell and closes the tab; asks first when a program runs in it. */
async function endTerminal(sandboxes: Sandboxes, widget: TerminalWidget): Promise<void> {
  const { sandboxId, pid } = widget.connection;
  const runs = pid !== undefined && !widget.connection.hasEnded;
  if (!runs || (await askAndEndShell(sandboxes, sandboxId, pid, widget.sandboxName))) {
    widget.closeEnded();
  }
}

/** Ends a shell like `endShell`; asks first when a program runs in it. Returns whether it has ended. */
export async function askAndEndShell(
  sandboxes: Sandboxes,
  sandboxId: string,
  pid: number,
  sandboxName: string
): Promise<boolean> {
  try {
    const { running } = await terminalCalls.readTerminal(sandboxes.api, sandboxId, pid);
    if (running !== '' && !(await confirmEnd(sandboxName, running))) {
      return false;
    }
  } catch (reason) {
    return isGone(reason);
  }
  return endShell(sandboxes, sandboxId, pid);
}

/** Notifies that a closed terminal is still running, and offers to reopen or end it. */
export function notifyStillRunning(commands: CommandRegistry, sandboxes: Sandboxes, widget: TerminalWidget): void {
  const { sandboxId, pid } = widget.connection;
  if (pid === undefined) {
    return;
  }
  Notification.info(trans.__('The terminal in %1 is still running.', widget.sandboxName), {
    autoClose: 5000,
    actions: [
      {
        label: trans.__('Reopen'),
        callback: () => void commands.execute(CommandIDs.openTerminal, { sandbox: sandboxId, pid })
      },
      { label: trans.__('End it'), callback: () => void askAndEndShell(sandboxes, sandboxId, pid, widget.sandboxName) }
    ]
  });
}

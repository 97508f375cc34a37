import type { JupyterFrontEnd } from '@jupyterlab/application';
import type { WidgetTracker } from '@jupyterlab/apputils';
import { Clipboard, InputDialog, Notification } from '@jupyterlab/apputils';

import { trans } from '../../components/translation';
import { messageOf } from '../../protocol/errors';
import { CommandIDs } from '../commandIds';
import { notifyError } from '../notifications';
import { describedBy, stringOf } from '../panel/commands';
import type { Sandboxes } from '../sandboxes';
import { nameTerminal } from './terminalCalls';
import { linkedTerminal, terminalLink, withoutLink } from './terminalLinks';
import type { TerminalWidget } from './terminalWidget';

/** Adds the commands that name the terminal in front and copy its link. */
export function addSharingCommands(
  app: JupyterFrontEnd,
  sandboxes: Sandboxes,
  tracker: WidgetTracker<TerminalWidget>,
  labUrl: string
): void {
  const isShown = () => tracker.currentWidget?.connection.pid !== undefined;
  app.commands.addCommand(CommandIDs.renameTerminal, {
    label: trans.__('Rename Sandbox Terminal…'),
    caption: trans.__('Give the terminal a name, which all who look at it see'),
    isEnabled: isShown,
    describedBy: describedBy({ name: { type: 'string', description: 'Asked for without it; empty for none.' } }),
    execute: async args => {
      const connection = tracker.currentWidget?.connection;
      if (connection?.pid === undefined) {
        return;
      }
      const name = stringOf(args['name']) ?? (await askName(connection.shown.name));
      if (name !== null) {
        await nameTerminal(sandboxes.api, connection.sandboxId, connection.pid, name).catch((reason: unknown) => {
          notifyError(trans.__('The terminal could not be renamed. %1', messageOf(reason)));
        });
      }
    }
  });
  app.commands.addCommand(CommandIDs.copyTerminalLink, {
    label: args =>
      args['readOnly'] === true ? trans.__('Copy Link for Others, to Watch Only') : trans.__('Copy Link for Others'),
    caption: trans.__('Opens this terminal for other users of this server who may use the sandbox'),
    isEnabled: isShown,
    describedBy: describedBy({ readOnly: { type: 'boolean', description: 'The view that it opens takes no keys.' } }),
    execute: args => {
      const connection = tracker.currentWidget?.connection;
      if (connection?.pid !== undefined) {
        const readOnly = args['readOnly'] === true;
        Clipboard.copyToSystem(terminalLink(labUrl, { sandbox: connection.sandboxId, pid: connection.pid, readOnly }));
        Notification.success(trans.__('The link is copied. Who opens it must be allowed to use the sandbox.'), {
          autoClose: 4000
        });
      }
    }
  });
  const items = [
    { command: CommandIDs.renameTerminal },
    { command: CommandIDs.copyTerminalLink },
    { command: CommandIDs.copyTerminalLink, args: { readOnly: true } }
  ];
  for (const [index, item] of items.entries()) {
    app.contextMenu.addItem({ ...item, selector: '.sbx-TerminalWidget', rank: 8.5 + index / 10 });
  }
}

/** Opens the terminal that the address of the page names, and takes it out of the address. */
export async function openLinkedTerminal(app: JupyterFrontEnd): Promise<void> {
  const linked = linkedTerminal(window.location.search);
  if (linked === null) {
    return;
  }
  await app.restored;
  window.history.replaceState(window.history.state, '', withoutLink(window.location.href));
  await app.commands.execute(CommandIDs.openTerminal, { ...linked });
}

async function askName(name: string): Promise<string | null> {
  const asked = await InputDialog.getText({
    title: trans.__('Name of the terminal'),
    text: name,
    okLabel: trans.__('Rename')
  });
  return asked.button.accept ? (asked.value ?? '') : null;
}

import type { JupyterFrontEnd } from '@jupyterlab/application';
import type { WidgetTracker } from '@jupyterlab/apputils';
import { Clipboard } from '@jupyterlab/apputils';
import { copyIcon, pasteIcon, refreshIcon } from '@jupyterlab/ui-components';

import { trans } from '../../components/translation';
import { messageOf } from '../../protocol/errors';
import { CommandIDs } from '../commandIds';
import { withoutItems } from '../contextMenus';
import { notifyError } from '../notifications';
import { describedBy } from '../panel/commands';
import type { TerminalWidget } from './terminalWidget';

const TERMINAL = '.sbx-TerminalWidget';
/** JupyterLab's items for all terminals: they do nothing in those that its own tracker does not know. */
const LAB_ITEMS = ['terminal:copy', 'terminal:paste', 'terminal:refresh'];

/** Adds copy, paste and refresh for the sandbox terminal in front, in the places of JupyterLab's items. */
export function addClipboardCommands(app: JupyterFrontEnd, tracker: WidgetTracker<TerminalWidget>): void {
  const inMenu = { type: 'boolean', description: 'Whether the label is the short one of the menu of a terminal.' } as const;
  const content = () => tracker.currentWidget?.content;
  app.commands.addCommand(CommandIDs.copyFromTerminal, {
    label: args => (args['inMenu'] === true ? trans.__('Copy') : trans.__('Copy from Sandbox Terminal')),
    icon: copyIcon,
    isEnabled: () => content()?.hasSelection() ?? false,
    describedBy: describedBy({ inMenu }),
    execute: () => {
      const selected = content()?.getSelection() ?? '';
      if (selected !== '') {
        Clipboard.copyToSystem(selected);
        content()?.activate();
      }
    }
  });
  app.commands.addCommand(CommandIDs.pasteIntoTerminal, {
    label: args => (args['inMenu'] === true ? trans.__('Paste') : trans.__('Paste into Sandbox Terminal')),
    icon: pasteIcon,
    isEnabled: () => tracker.currentWidget?.connection.isReadOnly === false,
    describedBy: describedBy({ inMenu }),
    execute: async () => {
      const target = content();
      try {
        target?.paste(await navigator.clipboard.readText());
        target?.activate();
      } catch (reason) {
        notifyError(trans.__('The clipboard could not be read. %1', messageOf(reason)));
      }
    }
  });
  app.commands.addCommand(CommandIDs.refreshTerminal, {
    label: args => (args['inMenu'] === true ? trans.__('Refresh Terminal') : trans.__('Refresh Sandbox Terminal')),
    icon: refreshIcon,
    isEnabled: () => tracker.currentWidget !== null,
    describedBy: describedBy({ inMenu }),
    execute: async () => {
      await content()?.refresh();
      content()?.activate();
    }
  });
  const commands = [CommandIDs.copyFromTerminal, CommandIDs.pasteIntoTerminal, CommandIDs.refreshTerminal];
  for (const [rank, command] of commands.entries()) {
    app.contextMenu.addItem({ command, args: { inMenu: true }, selector: `${TERMINAL} .jp-Terminal`, rank });
  }
  withoutItems(app, TERMINAL, LAB_ITEMS);
}

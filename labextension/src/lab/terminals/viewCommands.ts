import type { JupyterFrontEnd } from '@jupyterlab/application';
import type { WidgetTracker } from '@jupyterlab/apputils';

import { trans } from '../../components/translation';
import { CommandIDs } from '../commandIds';
import { splitIcon } from '../icons';
import { describedBy } from '../panel/commands';
import type { TerminalWidget } from './terminalWidget';

/** Adds the commands that open another view beside the sandbox terminal in front, with their menu items. */
export function addViewCommands(app: JupyterFrontEnd, tracker: WidgetTracker<TerminalWidget>): void {
  const open = (args: { readonly pid?: number; readonly readOnly?: boolean }) => {
    const widget = tracker.currentWidget;
    return widget === null
      ? null
      : app.commands.execute(CommandIDs.openTerminal, {
          sandbox: widget.connection.sandboxId,
          beside: widget.id,
          ...args
        });
  };
  app.commands.addCommand(CommandIDs.splitTerminal, {
    label: trans.__('Split Sandbox Terminal'),
    caption: trans.__('Open another terminal of the same sandbox beside this one'),
    icon: splitIcon,
    isEnabled: () => tracker.currentWidget !== null,
    describedBy: describedBy({}),
    execute: () => open({})
  });
  app.commands.addCommand(CommandIDs.watchTerminal, {
    label: trans.__('Watch Sandbox Terminal'),
    caption: trans.__('Show the same terminal once more, in a view that takes no keys'),
    isEnabled: () => tracker.currentWidget?.connection.pid !== undefined,
    describedBy: describedBy({}),
    execute: () => open({ pid: tracker.currentWidget?.connection.pid, readOnly: true })
  });
  for (const [rank, command] of [CommandIDs.splitTerminal, CommandIDs.watchTerminal].entries()) {
    app.contextMenu.addItem({ command, selector: '.sbx-TerminalWidget', rank: 8 + rank / 10 });
  }
}

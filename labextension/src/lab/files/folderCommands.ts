import type { JupyterFrontEnd } from '@jupyterlab/application';
import type { FileBrowser } from '@jupyterlab/filebrowser';
import { downloadIcon, terminalIcon } from '@jupyterlab/ui-components';

import { element } from '../../components/dom';
import { trans } from '../../components/translation';
import { CommandIDs } from '../commandIds';
import { withoutItems } from '../contextMenus';
import { detailsIcon } from '../icons';
import { describedBy } from '../panel/commands';
import type { SandboxDrive } from './drive';
import { splitPath } from './driveModel';

/** The list of a sandbox's files. */
const LISTING = '.sbx-FileBrowser .jp-DirListing-content';
/** Opens a terminal of the Jupyter server, which is another machine than the sandbox. */
const LAB_TERMINAL = 'terminal:open-folder-in-terminal';

/** Adds the commands on a folder of a sandbox, with their menu items. */
export function addFolderCommands(app: JupyterFrontEnd, drive: SandboxDrive, browser: () => FileBrowser | null): void {
  const inFolder = (work: (folder: ReturnType<typeof splitPath>) => unknown): unknown => {
    const shown = browser();
    return shown === null ? null : work(splitPath(app.serviceManager.contents.localPath(chosenFolder(shown))));
  };
  app.commands.addCommand(CommandIDs.openTerminalHere, {
    label: trans.__('Open Sandbox Terminal Here'),
    caption: trans.__('Open a terminal of the sandbox in the folder that is chosen or shown'),
    icon: terminalIcon,
    isEnabled: () => browser() !== null,
    describedBy: describedBy({}),
    execute: () => inFolder(({ sandboxId, path }) => app.commands.execute(CommandIDs.openTerminal, { sandbox: sandboxId, path }))
  });
  app.commands.addCommand(CommandIDs.showChangesHere, {
    label: trans.__('Show What Changed Here'),
    caption: trans.__('List what the sandbox added, changed or deleted in the folder that is chosen or shown'),
    icon: detailsIcon,
    isEnabled: () => browser() !== null,
    describedBy: describedBy({}),
    execute: () =>
      inFolder(({ sandboxId, path }) =>
        app.commands.execute(CommandIDs.openDetails, { sandbox: sandboxId, section: 'changes', folder: path })
      )
  });
  app.commands.addCommand(CommandIDs.downloadFolder, {
    label: trans.__('Download Folder as a Zip'),
    caption: trans.__('Download the folder of the sandbox that is chosen or shown'),
    icon: downloadIcon,
    isEnabled: () => folderOf(browser()) !== null,
    describedBy: describedBy({}),
    execute: () => {
      const folder = folderOf(browser());
      if (folder !== null) {
        const path = app.serviceManager.contents.localPath(folder);
        element('a', '', { href: drive.getArchiveUrl(path), download: '' }).click();
      }
    }
  });
  app.contextMenu.addItem({ command: CommandIDs.downloadFolder, selector: LISTING, rank: 59 });
  app.contextMenu.addItem({ command: CommandIDs.openTerminalHere, selector: LISTING, rank: 60 });
  app.contextMenu.addItem({ command: CommandIDs.showChangesHere, selector: LISTING, rank: 61 });
  withoutItems(app, LISTING, [LAB_TERMINAL]);
}

/** The folder that is chosen in a browser, else the one that it shows. */
export function chosenFolder(browser: FileBrowser): string {
  const [first, second] = [...browser.selectedItems()];
  return first?.type === 'directory' && second === undefined ? first.path : browser.model.path;
}

/** The folder that is chosen or shown, unless a file or several entries are chosen. */
function folderOf(browser: FileBrowser | null): string | null {
  const [first, second] = [...(browser?.selectedItems() ?? [])];
  const isOther = first !== undefined && (first.type !== 'directory' || second !== undefined);
  return browser === null || isOther ? null : chosenFolder(browser);
}

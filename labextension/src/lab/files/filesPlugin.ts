import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { ILayoutRestorer } from '@jupyterlab/application';
import { Notification, WidgetTracker } from '@jupyterlab/apputils';
import { PageConfig } from '@jupyterlab/coreutils';
import type { FileBrowser } from '@jupyterlab/filebrowser';
import { IFileBrowserFactory } from '@jupyterlab/filebrowser';

import { element } from '../../components/dom';
import { basename } from '../../components/files/paths';
import { trans } from '../../components/translation';
import { messageOf } from '../../protocol/errors';
import type { SandboxCommands } from '../panel/commands';
import { describedBy, labelled, sandboxArg, stringOf } from '../panel/commands';
import { SandboxDrive } from './drive';
import type { IDescribe } from './driveModel';
import { splitPath } from './driveModel';
import { FilesPanel } from './filesPanel';
import { addFolderCommands } from './folderCommands';
import type { Sandboxes } from '../sandboxes';
import { filesIcon } from '../icons';
import { notifyError } from '../notifications';
import { uploadWithoutChunks } from './uploads';
import { CommandIDs } from '../commandIds';
import { ISandboxCommands, ISandboxes } from '../tokens';

/** The directory in which browsing starts inside a sandbox. */
const HOME = '/home/user';

/** The files of sandboxes in JupyterLab's own browser and editors. */
export const filesPlugin: JupyterFrontEndPlugin<void> = {
  id: 'sbx-jupyter:files',
  description: 'The files of sandboxes.',
  autoStart: true,
  requires: [ISandboxes, ISandboxCommands, IFileBrowserFactory],
  optional: [ILayoutRestorer],
  activate: (
    app: JupyterFrontEnd,
    sandboxes: Sandboxes,
    commands: SandboxCommands,
    factory: IFileBrowserFactory,
    restorer: ILayoutRestorer | null
  ) => {
    const hasTrash = PageConfig.getOption('delete_to_trash') === 'true';
    const drive = new SandboxDrive(sandboxes, app.serviceManager.serverSettings, describeWith(app), hasTrash);
    app.serviceManager.contents.addDrive(drive);
    offerUndo(drive);
    offerDownload(drive);
    const tracker = new WidgetTracker<FileBrowser>({ namespace: 'sbx-files' });
    let shown: FilesPanel | null = null;

    // Made on demand: the factory takes its newest browser for the current one, and File > New
    // then asks that browser's drive.
    const open = async (): Promise<FilesPanel> => {
      if (shown === null || shown.browser.isDisposed) {
        const browser = factory.createFileBrowser('sbx-files', { driveName: drive.name, restore: false });
        shown = new FilesPanel(browser, sandboxes, app.commands, drive.listings);
        uploadWithoutChunks(browser.model, drive);
        const { model } = browser;
        // The model compares paths with its drive's name in front twice, so it misses these.
        drive.fileChanged.connect(() => void model.refresh(), model);
        app.shell.add(browser, 'left', { rank: 601, type: trans.__('Sandbox files') });
        await tracker.add(browser);
        model.pathChanged.connect(() => void tracker.save(browser));
      }
      return shown;
    };

    addFolderCommands(app, drive, () => (shown === null || shown.browser.isDisposed ? null : shown.browser));
    app.commands.addCommand(CommandIDs.browseFiles, {
      label: labelled(trans.__('Browse Files'), trans.__('Browse Sandbox Files')),
      caption: trans.__('Show the files of a sandbox'),
      icon: filesIcon,
      describedBy: describedBy({
        sandbox: sandboxArg,
        path: { type: 'string', description: 'Absolute path of a directory in the sandbox.' }
      }),
      execute: async args => {
        const sandbox = await commands.target(args);
        if (sandbox === null || !(await commands.ensureRunning(sandbox))) {
          return null;
        }
        const files = await open();
        if (args['restored'] !== true) {
          app.shell.activateById(files.browser.id);
        }
        await files.browser.model.cd(`/${sandbox.sandboxID}${stringOf(args['path']) ?? HOME}`);
        return files.browser;
      }
    });
    void restorer?.restore(tracker, {
      command: CommandIDs.browseFiles,
      args: ({ model }) => {
        const { sandboxId, path } = splitPath(app.serviceManager.contents.localPath(model.path));
        return { sandbox: sandboxId, path, restored: true };
      },
      name: browser => browser.id,
      when: app.serviceManager.ready
    });
  }
};

/** Offers to undo each deletion. */
function offerUndo(drive: SandboxDrive): void {
  drive.trashed.connect((_, { name, putBack }) => {
    const undo = async () => {
      try {
        await putBack();
      } catch (reason) {
        notifyError(trans.__('%1 could not be put back. %2', name, messageOf(reason)));
      }
    };
    Notification.info(trans.__('%1 is in the trash of the sandbox.', name), {
      autoClose: 8000,
      actions: [{ label: trans.__('Undo'), callback: () => void undo() }]
    });
  });
}

/** Offers to download a file that JupyterLab cannot show. */
function offerDownload(drive: SandboxDrive): void {
  drive.unreadable.connect((_, path) => {
    const download = async () => {
      const link = element('a', '', { href: await drive.getDownloadUrl(path), download: '' });
      link.click();
    };
    Notification.info(trans.__('%1 cannot be shown here.', basename(path)), {
      autoClose: 8000,
      actions: [{ label: trans.__('Download'), callback: () => void download() }]
    });
  });
}

/** Finds the type of a file by its name in the document registry. */
function describeWith(app: JupyterFrontEnd): IDescribe {
  return path => {
    const fileType = app.docRegistry.getFileTypesForPath(path)[0];
    return {
      type: fileType?.contentType === 'notebook' ? 'notebook' : 'file',
      mimetype: fileType?.mimeTypes[0] ?? 'text/plain'
    };
  };
}

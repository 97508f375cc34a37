import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import type { FileBrowser } from '@jupyterlab/filebrowser';
import { IFileBrowserFactory } from '@jupyterlab/filebrowser';
import { newFolderIcon, refreshIcon, ToolbarButton } from '@jupyterlab/ui-components';
import { Widget } from '@lumino/widgets';

import { trans } from '../components/translation';
import { displayName } from '../protocol/sandboxes';
import type { SandboxCommands } from './commands';
import { describedBy, labelled, sandboxArg, stringOf } from './commands';
import { SandboxDrive } from './drive';
import type { IDescribe } from './driveModel';
import type { Sandboxes } from './sandboxes';
import { filesIcon } from './icons';
import { uploadWithoutChunks, uploadButton } from './uploads';
import { CommandIDs } from './commandIds';
import { ISandboxCommands, ISandboxes } from './tokens';

/** Where browsing starts inside a sandbox. */
const HOME = '/home/user';

/** The files of sandboxes in JupyterLab's own browser and editors. */
export const filesPlugin: JupyterFrontEndPlugin<void> = {
  id: 'sbx-jupyter:files',
  description: 'The files of sandboxes.',
  autoStart: true,
  requires: [ISandboxes, ISandboxCommands, IFileBrowserFactory],
  activate: (
    app: JupyterFrontEnd,
    sandboxes: Sandboxes,
    commands: SandboxCommands,
    factory: IFileBrowserFactory
  ) => {
    const drive = new SandboxDrive(sandboxes, app.serviceManager.serverSettings, describeWith(app));
    app.serviceManager.contents.addDrive(drive);
    let browser: FileBrowser | null = null;
    const title = new Widget({ node: document.createElement('h2') });
    title.addClass('sbx-FileBrowser-name');

    // Made on demand: the factory takes its newest browser for the current one, and File > New
    // then asks that browser's drive.
    const open = (): FileBrowser => {
      if (browser === null || browser.isDisposed) {
        browser = factory.createFileBrowser('sbx-files', { driveName: drive.name, restore: false });
        browser.title.icon = filesIcon;
        addToolbar(browser, title);
        uploadWithoutChunks(browser.model, drive);
        const { model } = browser;
        // The model compares paths with its drive's name in front twice, so it misses these.
        drive.fileChanged.connect(() => void model.refresh(), model);
        browser.addClass('sbx-FileBrowser');
        app.shell.add(browser, 'left', { rank: 601, type: trans.__('Sandboxes') });
      }
      return browser;
    };

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
        if (sandbox === null) {
          return null;
        }
        const files = open();
        const name = displayName(sandbox);
        files.title.caption = trans.__('Files of sandbox %1', name);
        title.node.textContent = name;
        title.node.title = files.title.caption;
        app.shell.activateById(files.id);
        await files.model.cd(`/${sandbox.sandboxID}${stringOf(args['path']) ?? HOME}`);
        return files;
      }
    });
  }
};

/** Adds the name of the sandbox and the buttons to the toolbar. */
function addToolbar(browser: FileBrowser, title: Widget): void {
  const { model, toolbar } = browser;
  toolbar.addItem('name', title);
  toolbar.addItem(
    'new-folder',
    new ToolbarButton({ icon: newFolderIcon, tooltip: trans.__('New folder'), onClick: () => void browser.createNewDirectory() })
  );
  toolbar.addItem('upload', uploadButton(model));
  toolbar.addItem(
    'refresh',
    new ToolbarButton({ icon: refreshIcon, tooltip: trans.__('Refresh'), onClick: () => void model.refresh() })
  );
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

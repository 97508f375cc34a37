import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { IStatusBar } from '@jupyterlab/statusbar';

import type { Sandboxes } from '../sandboxes';
import { ICurrentNotebook, ISandboxes } from '../tokens';
import { CurrentNotebook } from './currentNotebook';
import { SandboxStatus } from './sandboxStatus';

/** Knows the sandbox of the document in front, and names it in the status bar. */
export const currentNotebookPlugin: JupyterFrontEndPlugin<CurrentNotebook> = {
  id: 'sbx-jupyter:current-notebook',
  description: 'Knows the sandbox in which the kernel of the document in front runs.',
  autoStart: true,
  requires: [ISandboxes],
  optional: [IStatusBar],
  provides: ICurrentNotebook,
  activate: (app: JupyterFrontEnd, sandboxes: Sandboxes, statusBar: IStatusBar | null) => {
    const notebook = new CurrentNotebook(app.shell, sandboxes, app.serviceManager.kernelspecs);
    const item = new SandboxStatus(notebook, sandboxes, () => {
      app.shell.activateById('sbx-panel');
    });
    statusBar?.registerStatusItem('sbx-jupyter:current-notebook', {
      item,
      align: 'left',
      rank: 100,
      isActive: () => notebook.sandboxId !== undefined,
      activeStateChanged: notebook.changed
    });
    return notebook;
  }
};

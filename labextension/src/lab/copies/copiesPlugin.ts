import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import type { FileBrowser } from '@jupyterlab/filebrowser';
import { IFileBrowserFactory } from '@jupyterlab/filebrowser';

import type { Sandboxes } from '../sandboxes';
import { ISandboxes } from '../tokens';
import { globalPath } from './addresses';
import { askInDialog } from './conflictDialog';
import { Copies } from './copies';
import type { IDragEvent, IDropPlace } from './dropTargets';
import { acceptDrops } from './dropTargets';
import { shareClipboard } from './sharedClipboard';

/** The folder for files that are dropped on a sandbox in the panel. */
const HOME = '/home/user';

/** Copies of files between JupyterLab's browser and sandboxes: by drag and drop, copy and paste. */
export const copiesPlugin: JupyterFrontEndPlugin<void> = {
  id: 'sbx-jupyter:copies',
  description: 'Copies files between notebook files and sandboxes.',
  autoStart: true,
  requires: [ISandboxes, IFileBrowserFactory],
  activate: (app: JupyterFrontEnd, sandboxes: Sandboxes, factory: IFileBrowserFactory) => {
    const { contents, serverSettings } = app.serviceManager;
    const { tracker } = factory;
    const refresh = (directory: string) => {
      tracker.forEach(({ model }) => {
        if (model.path === directory) {
          void model.refresh();
        }
      });
    };
    const copies = new Copies(contents, serverSettings, sandboxes, askInDialog, refresh);
    const copy = (paths: readonly string[], directory: string) => void copies.copyInto(paths, directory);
    const isForeign = (path: string, directory: string) => copies.isForeign(path, directory);
    acceptDrops(event => inBrowser(tracker.find(({ node }) => node.contains(targetOf(event))), event) ?? onRow(event), isForeign, copy);
    shareClipboard(app.commands, tracker, copy);
  }
};

function targetOf(event: IDragEvent): Node | null {
  return event.target instanceof Node ? event.target : null;
}

/** The folder of a file browser below the pointer, or else the one that the browser shows. */
function inBrowser(browser: FileBrowser | undefined, event: IDragEvent): IDropPlace | null {
  const listing = browser?.node.querySelector<HTMLElement>('.jp-DirListing-content');
  if (browser === undefined || listing === null || listing === undefined || !listing.contains(targetOf(event))) {
    return null;
  }
  const row = (event.target as Element).closest<HTMLElement>('.jp-DirListing-item');
  const entry = row === null ? undefined : browser.modelForClick(event);
  return row !== null && entry?.type === 'directory'
    ? { node: row, directory: entry.path }
    : { node: listing, directory: browser.model.path };
}

/** The sandbox below the pointer in the panel. */
function onRow(event: IDragEvent): IDropPlace | null {
  const row = event.target instanceof Element ? event.target.closest<HTMLElement>('.sbx-Row[data-sandbox]') : null;
  const sandboxId = row?.dataset['sandbox'];
  return row === null || sandboxId === undefined ? null : { node: row, directory: globalPath(sandboxId, HOME) };
}

import type { WidgetTracker } from '@jupyterlab/apputils';
import type { FileBrowser } from '@jupyterlab/filebrowser';
import type { CommandRegistry } from '@lumino/commands';

/**
 * Pastes in one file browser what was copied in another.
 *
 * Each browser of JupyterLab has a clipboard of its own, so that a paste in the other one does nothing.
 */
export function shareClipboard(
  commands: CommandRegistry,
  browsers: WidgetTracker<FileBrowser>,
  copy: (paths: readonly string[], directory: string) => void
): void {
  let owner: FileBrowser | null = null;
  let paths: readonly string[] = [];
  commands.commandExecuted.connect((_, { id }) => {
    const browser = browsers.currentWidget;
    if (browser === null) {
      return;
    }
    if (id === 'filebrowser:copy' || id === 'filebrowser:cut') {
      if (owner !== null && owner !== browser && !owner.isDisposed) {
        empty(owner);
      }
      owner = browser;
      paths = [...browser.selectedItems()].map(({ path }) => path);
    } else if (id === 'filebrowser:paste' && owner !== browser && paths.length > 0) {
      copy(paths, browser.model.path);
    }
  });
}

/** Empties the clipboard of a browser, which pastes from it whatever was copied elsewhere since. */
function empty(browser: FileBrowser): void {
  browser.clearSelectedItems();
  browser.copy();
}

import type { JupyterFrontEnd } from '@jupyterlab/application';

/** Takes items of JupyterLab out of the menu that opens on what a selector matches. */
export function withoutItems(app: JupyterFrontEnd, selector: string, commands: readonly string[]): void {
  app.contextMenu.opened.connect(({ menu }) => {
    const unwanted = menu.items.filter(({ command }) => commands.includes(command));
    if (unwanted.length === 0 || app.contextMenuHitTest(node => node.matches(selector)) === undefined) {
      return;
    }
    // A menu closes when an item is taken out of it.
    const { left, top } = menu.node.getBoundingClientRect();
    for (const item of unwanted) {
      menu.removeItem(item);
    }
    menu.open(left, top);
  });
}

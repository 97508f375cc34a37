import type { JupyterFrontEnd } from '@jupyterlab/application';
import { MainAreaWidget } from '@jupyterlab/apputils';
import type { DocumentRegistry } from '@jupyterlab/docregistry';
import { MessageLoop } from '@lumino/messaging';
import type { Widget } from '@lumino/widgets';
import { TabPanel } from '@lumino/widgets';

/** The application whose pages have one document each, and refuse others in their main area without a word. */
const ONE_DOCUMENT = 'Jupyter Notebook';

/** Opens a widget as a tab of the main area; in Jupyter Notebook below the document. */
export function addTab(app: JupyterFrontEnd, widget: Widget, options: DocumentRegistry.IOpenOptions): void {
  if (app.name !== ONE_DOCUMENT) {
    app.shell.add(widget, 'main', options);
    return;
  }
  // Layouts set the least height of those that have one themselves.
  const sized = widget instanceof MainAreaWidget ? (widget as MainAreaWidget).content : widget;
  sized.addClass('sbx-mod-below');
  app.shell.add(widget, 'down', options);
  // Its shell shows the area, but not the tab that is activated.
  MessageLoop.installMessageHook(widget, (_, message) => {
    if (message.type === 'activate-request') {
      chooseTab(widget);
    }
    return true;
  });
}

/** Whether a tab is the one that the user works in. */
export function isInFront(app: JupyterFrontEnd, widget: Widget): boolean {
  return app.shell.currentWidget === widget || tabPanelOf(widget)?.currentWidget === widget;
}

function chooseTab(widget: Widget): void {
  const panel = tabPanelOf(widget);
  if (panel !== null) {
    panel.currentWidget = widget;
  }
}

function tabPanelOf(widget: Widget): TabPanel | null {
  const panel = widget.parent?.parent ?? null;
  return panel instanceof TabPanel ? panel : null;
}

import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import type { ISessionContext } from '@jupyterlab/apputils';
import type { IRenderMimeRegistry } from '@jupyterlab/rendermime';

import { VIEW_TYPE } from '../../protocol/widgetFrames';
import { WidgetBridge } from './widgetBridge';
import { WidgetRenderer } from './widgetRenderer';

/** Draws the widgets of sandboxed kernels in frames that reach nothing but their kernel. */
export const widgetsPlugin: JupyterFrontEndPlugin<void> = {
  id: 'sbx-jupyter:sandboxed-widgets',
  description: 'Draws widgets of kernels in sandboxes.',
  autoStart: true,
  activate: (app: JupyterFrontEnd) => {
    app.docRegistry.addWidgetExtension('Notebook', {
      createNew: (widget, context) => {
        const { content } = widget as object as { content: { rendermime?: IRenderMimeRegistry } };
        if (content.rendermime !== undefined) {
          addRenderer(content.rendermime, context.sessionContext);
        }
      }
    });
  }
};

function addRenderer(rendermime: IRenderMimeRegistry, session: ISessionContext): void {
  const bridge = new WidgetBridge(session);
  rendermime.addFactory(
    {
      // Untrusted cells show it too: what it draws has no way to the page.
      safe: true,
      mimeTypes: [VIEW_TYPE],
      createRenderer: () => new WidgetRenderer(bridge)
    },
    -10
  );
}

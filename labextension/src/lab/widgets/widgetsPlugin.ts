import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import type { IRenderMimeRegistry } from '@jupyterlab/rendermime';

import { VIEW_TYPE } from '../../protocol/widgetFrames';
import { STILL_TYPE, StillRenderer, WIDGET_TYPE } from './stillRenderer';
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
        if (content.rendermime === undefined) {
          return;
        }
        const bridge = new WidgetBridge(context.sessionContext);
        addRenderer(content.rendermime, bridge);
        addStills(content.rendermime);
        return bridge;
      }
    });
  }
};

function addRenderer(rendermime: IRenderMimeRegistry, bridge: WidgetBridge): void {
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

/** Shows our own widgets through `ipywidgets`, and their still pictures where their kernel is gone. */
function addStills(rendermime: IRenderMimeRegistry): void {
  rendermime.addFactory(
    {
      // The picture is text. The live widget is drawn for trusted outputs only.
      safe: true,
      mimeTypes: [STILL_TYPE],
      createRenderer: () => {
        const isKnown = rendermime.mimeTypes.includes(WIDGET_TYPE);
        return new StillRenderer(isKnown ? () => rendermime.createRenderer(WIDGET_TYPE) : null);
      }
    },
    -20
  );
}

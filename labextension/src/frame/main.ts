/** Runs inside the frame of a widget: takes its port from the page and draws one widget. */
import { Widget } from '@lumino/widgets';
import type { DOMWidgetModel } from '@jupyter-widgets/base';

import type { IFromFrame, IToFrame } from '../protocol/widgetFrames';
import { FRAME_READY } from '../protocol/widgetFrames';
import { FrameManager } from './manager';

import '@lumino/widgets/style/index.css';
import '@fortawesome/fontawesome-free/css/fontawesome.css';
import '@fortawesome/fontawesome-free/css/solid.css';
import '@fortawesome/fontawesome-free/css/v4-shims.css';
import '@jupyter-widgets/base/css/index.css';
import '@jupyter-widgets/controls/css/widgets.css';
import 'jupyter-matplotlib/css/mpl_widget.css';
import './frame.css';

addEventListener('message', function take(event: MessageEvent) {
  const [port] = event.ports;
  if (event.source === parent.parent && port !== undefined) {
    removeEventListener('message', take);
    serve(port);
  }
});
// The page's origin is not known here, and this says nothing.
parent.parent.postMessage(FRAME_READY, '*');

/** Draws what the page asks for, for as long as the frame lives. */
function serve(port: MessagePort): void {
  const post = (message: IFromFrame) => {
    port.postMessage(message);
  };
  const manager = new FrameManager(post);
  let count = 0;
  port.onmessage = (event: MessageEvent<IToFrame>) => {
    const message = event.data;
    if (message.type === 'start') {
      applyTheme(message.theme);
      void draw(manager, message.modelId);
    } else if (message.type === 'theme') {
      applyTheme(message.theme);
    } else {
      manager.receive(message);
    }
    post({ type: 'taken', count: ++count });
  };
  let shown = 0;
  const measure = () => {
    const height = Math.ceil(document.body.getBoundingClientRect().height);
    if (height !== shown) {
      shown = height;
      post({ type: 'height', height });
    }
  };
  new ResizeObserver(measure).observe(document.body);
}

async function draw(manager: FrameManager, modelId: string): Promise<void> {
  try {
    const model: unknown = await manager.get_model(modelId);
    const view = await manager.create_view(model as DOMWidgetModel);
    Widget.attach(view.luminoWidget, document.body);
  } catch (error) {
    document.body.textContent = String(error);
  }
}

function applyTheme(theme: Record<string, string>): void {
  for (const [name, value] of Object.entries(theme)) {
    document.documentElement.style.setProperty(name, value);
  }
}

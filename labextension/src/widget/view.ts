import type { AnyModel, RenderProps } from '@anywidget/types';

import { ServerTransport } from '../components/serverTransport';
import type { ISandboxTransport } from '../components/transport';
import { ModelTransport } from './modelTransport';
import { serverFor } from './pageServer';

export interface IView {
  dispose(): void;
}

/** Makes one view in `node`, given how the sandbox is reached. */
export type MakeView = (node: HTMLElement, transport: ISandboxTransport, model: AnyModel) => IView;

/** The `render` of one widget: styles, the best way to the sandbox, the view, and how to end it. */
export function renderWith(styles: readonly string[], make: MakeView) {
  return async ({ model, el }: RenderProps): Promise<() => void> => {
    addStyles(el, styles);
    const node = document.createElement('div');
    node.className = 'sbx-Widget';
    el.append(node);
    const transport = await transportFor(model);
    const view = make(node, transport, model);
    return () => {
      view.dispose();
      transport.dispose();
      node.remove();
    };
  };
}

async function transportFor(model: AnyModel): Promise<ISandboxTransport> {
  const sandboxId = String((model.get('sandbox_id') as string | undefined) ?? '');
  const server = await serverFor(sandboxId);
  return server === null ? new ModelTransport(model) : new ServerTransport(server, sandboxId);
}

/** Once per document or shadow root, so that many widgets share one sheet. */
function addStyles(el: HTMLElement, styles: readonly string[]): void {
  const root = el.getRootNode();
  const parent = root instanceof ShadowRoot ? root : document.head;
  for (const text of styles) {
    const known = [...parent.querySelectorAll('style[data-sbx]')].some(style => style.textContent === text);
    if (!known) {
      const style = document.createElement('style');
      style.dataset['sbx'] = '';
      style.textContent = text;
      parent.append(style);
    }
  }
}

import type { AnyModel, RenderProps } from '@anywidget/types';

import { ServerTransport } from '../components/serverTransport';
import type { ISandboxTransport } from '../components/transport';
import { ModelTransport } from './modelTransport';
import { serverFor } from './sameOriginServer';

export interface IView {
  dispose(): void;
  /** Python asks to read again what is shown. */
  refresh?(): void;
}

/** Makes one view in `node`, given how the sandbox is reached. */
export type MakeView = (node: HTMLElement, transport: ISandboxTransport, model: AnyModel) => IView;

/** The `render` of one widget: styles, the best way to the sandbox, the view, and how to end it. */
export function renderWith(styles: readonly string[], make: MakeView) {
  return async ({ model, el }: RenderProps): Promise<() => void> => {
    addStyles(el, styles);
    const node = document.createElement('div');
    node.className = 'sbx-Widget';
    node.setAttribute('role', 'group');
    const unfollow = [
      follow(model, 'title', value => {
        node.setAttribute('aria-label', value);
      }),
      follow(model, 'height', value => {
        node.style.height = value;
      })
    ];
    el.append(node);
    const transport = await transportFor(model);
    const view = make(node, transport, model);
    const onMessage = (message: { readonly event?: string }) => {
      if (message.event === 'refresh') {
        view.refresh?.();
      }
    };
    model.on('msg:custom', onMessage);
    return () => {
      model.off('msg:custom', onMessage);
      unfollow.forEach(stop => {
        stop();
      });
      view.dispose();
      transport.dispose();
      node.remove();
    };
  };
}

async function transportFor(model: AnyModel): Promise<ISandboxTransport> {
  const sandboxId = (model.get('sandbox_id') as string | undefined) ?? '';
  const server = await serverFor(sandboxId);
  return server === null ? new ModelTransport(model) : new ServerTransport(server, sandboxId);
}

/** Applies a text trait now and whenever Python changes it; gives back what stops that. */
function follow(model: AnyModel, trait: string, apply: (value: string) => void): () => void {
  const read = () => {
    const value: unknown = model.get(trait);
    if (typeof value === 'string' && value !== '') {
      apply(value);
    }
  };
  model.on(`change:${trait}`, read);
  read();
  return () => {
    model.off(`change:${trait}`, read);
  };
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

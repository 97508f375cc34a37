import type { AnyModel, RenderProps } from '@anywidget/types';

import { StateBand } from '../components/sandboxState';
import { ServerTransport } from '../components/serverTransport';
import type { ISandboxTransport, SandboxState } from '../components/transport';
import { ModelTransport } from './modelTransport';
import { serverFor } from './sameOriginServer';
import { follow, tell } from './traits';

export interface IView {
  dispose(): void;
  /** Called when Python asks the view to read again. */
  refresh?(): void;
  /** Called with the state of the sandbox, at first and after each change. */
  setSandboxState?(state: SandboxState): void;
}

/** Creates a view in `node`. */
export type MakeView = (node: HTMLElement, transport: ISandboxTransport, model: AnyModel) => IView;

/** Creates the `render` function of a widget: adds the styles, picks the transport, creates the view. */
export function renderWith(styles: readonly string[], make: MakeView) {
  return async ({ model, el }: RenderProps): Promise<() => void> => {
    addStyles(el, styles);
    const node = document.createElement('div');
    node.className = 'sbx-Widget';
    node.setAttribute('role', 'group');
    const warning = document.createElement('div');
    warning.className = 'sbx-Widget-warning';
    warning.setAttribute('role', 'alert');
    const unfollow = [
      follow(model, 'warning', value => {
        warning.textContent = value;
        el.prepend(warning);
      }),
      follow(model, 'title', value => {
        node.setAttribute('aria-label', value);
      }),
      follow(model, 'height', value => {
        node.style.height = value;
      })
    ];
    el.append(node);
    const transport = await transportFor(model);
    const body = document.createElement('div');
    body.className = 'sbx-Widget-body';
    const band = new StateBand(document.createElement('div'), transport, state => {
      // The state is told after an answer, so there is a view.
      view.setSandboxState?.(state);
      node.classList.toggle('sbx-mod-ended', state === 'ended');
      tell(model, 'status', state);
    });
    node.append(band.node, body);
    const view = make(body, transport, model);
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
      band.dispose();
      view.dispose();
      transport.dispose();
      warning.remove();
      node.remove();
    };
  };
}

async function transportFor(model: AnyModel): Promise<ISandboxTransport> {
  const sandboxId = (model.get('sandbox_id') as string | undefined) ?? '';
  const server = await serverFor(sandboxId);
  return server === null ? new ModelTransport(model) : new ServerTransport(server, sandboxId);
}

/** Adds each style sheet once per document or shadow root. */
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

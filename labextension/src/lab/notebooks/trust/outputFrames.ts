import type { IRenderMime } from '@jupyterlab/rendermime-interfaces';

import { trans } from '../../../components/translation';
import { confinedDocument, createFrame } from '../../widgets/frameDocument';

const HTML = 'text/html';
const BEGINNING = '<iframe class="sbx-Frame"';
const LEAST_HEIGHT = 20;
const MOST_HEIGHT = 2000;
const USUAL_HEIGHT = 320;

/** The document that an output wants to have drawn in a frame. */
export interface IFramed {
  readonly content: string;
  /** Pixels. */
  readonly height: number;
}

/** Reads an output that is nothing but a frame; a saved notebook may hold a forged one. */
export function parseFramed(html: string): IFramed | undefined {
  if (!html.startsWith(BEGINNING)) {
    return undefined;
  }
  // The parsed document is never shown, so nothing in it is loaded or run.
  const { body } = new DOMParser().parseFromString(html, 'text/html');
  const frame = body.firstElementChild;
  const content = frame?.getAttribute('srcdoc') ?? null;
  if (!(frame instanceof HTMLElement) || body.childNodes.length !== 1 || content === null) {
    return undefined;
  }
  const height = Number.parseInt(frame.style.height, 10);
  return { content, height: Math.max(LEAST_HEIGHT, Math.min(MOST_HEIGHT, height || USUAL_HEIGHT)) };
}

/**
 * Draws frames of outputs in cells that are not trusted, where JupyterLab would leave them out.
 *
 * Whatever the output says of its frame, this one has an opaque origin and loads nothing from a network. Until
 * `mayDraw`, a button takes its place, so that opening a notebook runs nothing.
 */
export function framedHtmlFactory(
  plain: IRenderMime.IRendererFactory,
  mayDraw: () => boolean
): IRenderMime.IRendererFactory {
  return {
    safe: true,
    mimeTypes: [HTML],
    createRenderer: options => {
      const renderer = plain.createRenderer(options);
      const render = renderer.renderModel.bind(renderer);
      renderer.renderModel = async model => {
        const html = model.data[HTML];
        const framed = typeof html === 'string' ? parseFramed(html) : undefined;
        if (framed === undefined || model.trusted) {
          await render(model);
        } else if (mayDraw()) {
          draw(renderer.node, framed);
        } else {
          renderer.node.replaceChildren(
            heldOutput(() => {
              draw(renderer.node, framed);
            })
          );
        }
      };
      return renderer;
    }
  };
}

function draw(node: HTMLElement, framed: IFramed): void {
  const frame = createFrame(confinedDocument(framed.content), trans.__('Output of a sandbox'));
  frame.className = 'sbx-OutputFrame';
  frame.style.height = `${framed.height}px`;
  node.replaceChildren(frame);
}

function heldOutput(show: () => void): HTMLElement {
  const line = document.createElement('div');
  line.className = 'sbx-HeldOutput';
  const text = document.createElement('span');
  text.textContent = trans.__('An earlier output of a sandbox, which may run code in a frame.');
  const button = document.createElement('button');
  button.type = 'button';
  button.className = 'sbx-TextButton';
  button.textContent = trans.__('Draw it');
  button.addEventListener('click', show);
  line.append(text, button);
  return line;
}

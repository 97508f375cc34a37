import type { DOMWidgetModel } from '@jupyter-widgets/base';
import { DOMWidgetView } from '@jupyter-widgets/base';
import { OutputModel as BareOutputModel } from '@jupyter-widgets/output';

import { parseModelId, VIEW_TYPE } from '../protocol/widgetFrames';

type IOutput = Record<string, unknown>;

/** Escape sequences of terminals. */
// eslint-disable-next-line no-control-regex
const ESCAPES = /\u001b\[[0-9;]*[A-Za-z]/g;

/** The output widget; the page collects what belongs to it, as part of its state. */
export class OutputModel extends BareOutputModel {
  override defaults(): Backbone.ObjectHash {
    return { ...super.defaults(), msg_id: '', outputs: [] };
  }
}

/** Draws the outputs that a widget has collected. */
export class OutputView extends DOMWidgetView {
  override render(): void {
    super.render();
    this.el.classList.add('sbx-Output');
    this.listenTo(this.model, 'change:outputs', () => {
      this.draw();
    });
    this.draw();
  }

  private draw(): void {
    const outputs = this.model.get('outputs') as IOutput[];
    // Each change brings copies, so outputs are compared by their text.
    const texts = outputs.map(output => JSON.stringify(output));
    const first = texts.findIndex((text, at) => text !== this.drawn[at]?.text);
    // Outputs before the first that changed stay as they are: widgets among them keep what was typed.
    const keep = first < 0 ? outputs.length : first;
    for (const { node } of this.drawn.splice(keep)) {
      node.remove();
    }
    outputs.slice(keep).forEach((output, at) => {
      const node = this.nodeFor(output);
      this.drawn.push({ text: texts[keep + at] ?? '', node });
      this.el.append(node);
    });
  }

  private nodeFor(output: IOutput): HTMLElement {
    if (output['output_type'] === 'stream') {
      return textNode(output['text'], output['name'] === 'stderr' ? 'sbx-mod-error' : '');
    }
    if (output['output_type'] === 'error') {
      const traceback = output['traceback'];
      return textNode(Array.isArray(traceback) ? traceback.join('\n') : output['evalue'], 'sbx-mod-error');
    }
    return this.bundleNode((output['data'] ?? {}) as Record<string, unknown>);
  }

  private bundleNode(data: Record<string, unknown>): HTMLElement {
    const node = document.createElement('div');
    const view = data[VIEW_TYPE] as { model_id?: unknown } | undefined;
    const id = parseModelId(view?.model_id);
    if (id !== undefined) {
      void this.showWidget(id, node);
      return node;
    }
    for (const kind of ['image/png', 'image/jpeg']) {
      if (typeof data[kind] === 'string') {
        const image = document.createElement('img');
        image.src = `data:${kind};base64,${data[kind]}`;
        node.append(image);
        return node;
      }
    }
    if (typeof data['text/html'] === 'string') {
      node.innerHTML = data['text/html'];
      return node;
    }
    return textNode(data['text/plain'], '');
  }

  private async showWidget(id: string, node: HTMLElement): Promise<void> {
    try {
      const manager = this.model.widget_manager;
      const model: unknown = await manager.get_model(id);
      const view = await manager.create_view(model as DOMWidgetModel);
      node.append(view.el);
    } catch (reason) {
      node.append(textNode(String(reason), 'sbx-mod-error'));
    }
  }

  private readonly drawn: { readonly text: string; readonly node: HTMLElement }[] = [];
}

function textNode(text: unknown, style: string): HTMLElement {
  const node = document.createElement('pre');
  node.className = style;
  node.textContent = (typeof text === 'string' ? text : '').replace(ESCAPES, '');
  return node;
}

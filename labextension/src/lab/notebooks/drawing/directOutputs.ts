import type { IRenderMimeRegistry } from '@jupyterlab/rendermime';
import type { IRenderMime } from '@jupyterlab/rendermime-interfaces';
import type { ReadonlyPartialJSONObject } from '@lumino/coreutils';
import { Panel } from '@lumino/widgets';

import { isJson } from '../../widgets/widgetStates';

/** The media type of a result as the kernel sent it, beside its safe formats. */
export const DIRECT_TYPE = 'application/vnd.sbx.direct+json';

const WIDGET_VIEW = 'application/vnd.jupyter.widget-view+json';

/**
 * Draws a result as the kernel sent it if this page may, else its safe formats.
 *
 * The cell stays untrusted: the saved notebook draws the safe formats, and so does every other page.
 */
export class DirectRenderer extends Panel implements IRenderMime.IRenderer {
  constructor(
    private readonly rendermime: IRenderMimeRegistry,
    private readonly allows: (marks: unknown) => boolean
  ) {
    super();
  }

  async renderModel(model: IRenderMime.IMimeModel): Promise<void> {
    const { [DIRECT_TYPE]: direct, ...safe } = model.data;
    const shown = this.direct(direct) ?? shownModel(safe, model.metadata, model.trusted);
    const type = this.rendermime.preferredMimeType(shown.data, shown.trusted ? 'any' : 'ensure');
    for (const widget of [...this.widgets]) {
      widget.dispose();
    }
    if (type !== undefined) {
      const renderer = this.rendermime.createRenderer(type);
      this.addWidget(renderer);
      await renderer.renderModel(shown);
    }
  }

  /** The result as it is; `undefined` if this page may not draw it, or cannot. */
  private direct(value: unknown): IRenderMime.IMimeModel | undefined {
    if (!isJson(value) || !isJson(value['data']) || !this.allows(value['marks'])) {
      return undefined;
    }
    const data = value['data'] as ReadonlyPartialJSONObject;
    // Without JupyterLab's own renderer of widgets, our frames draw them.
    if (WIDGET_VIEW in data && this.rendermime.preferredMimeType(data, 'any') !== WIDGET_VIEW) {
      return undefined;
    }
    const metadata = isJson(value['metadata']) ? (value['metadata'] as ReadonlyPartialJSONObject) : {};
    return shownModel(data, metadata, true);
  }
}

/** The model for a renderer to draw; none of them changes it. */
function shownModel(
  data: ReadonlyPartialJSONObject,
  metadata: ReadonlyPartialJSONObject,
  trusted: boolean
): IRenderMime.IMimeModel {
  return { data, metadata, trusted, setData: () => undefined };
}

/** Makes a notebook draw what its kernel sends, as far as `allows` knows its marks. */
export function addDirectOutputs(rendermime: IRenderMimeRegistry, allows: (marks: unknown) => boolean): void {
  const factory: IRenderMime.IRendererFactory = {
    // Untrusted cells show it too, with their safe formats.
    safe: true,
    mimeTypes: [DIRECT_TYPE],
    createRenderer: () => new DirectRenderer(rendermime, allows)
  };
  rendermime.addFactory(factory, -20);
}

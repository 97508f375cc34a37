import type { IRenderMime } from '@jupyterlab/rendermime-interfaces';
import { Panel, Widget } from '@lumino/widgets';

import { element } from '../../components/dom';
import { trans } from '../../components/translation';

/** The type our widgets add to their output beside the view: the fields of `Still` in `widgets/still.py`. */
export const STILL_TYPE = 'application/vnd.sbx.still+json';
/** The widgets of the `ipywidgets` package. */
export const WIDGET_TYPE = 'application/vnd.jupyter.widget-view+json';

interface IStill {
  readonly title?: unknown;
  readonly sandbox?: unknown;
  readonly taken?: unknown;
  readonly rows?: unknown;
  readonly more?: unknown;
}

/**
 * Shows a widget of ours, or its still picture while no kernel has it.
 *
 * The widget is drawn by the renderer of `ipywidgets`. That one shows elements once it has the widget,
 * and only a text before, or for ever in a notebook that was opened again.
 */
export class StillRenderer extends Panel implements IRenderMime.IRenderer {
  constructor(private readonly makeLive: (() => IRenderMime.IRenderer) | null) {
    super();
    this.addClass('sbx-StillRenderer');
    this.still.addClass('sbx-Still');
    this.addWidget(this.still);
  }

  async renderModel(model: IRenderMime.IMimeModel): Promise<void> {
    this.still.node.replaceChildren(...drawn(model.data[STILL_TYPE] as IStill | null));
    this.live?.dispose();
    this.live = null;
    this.choose();
    if (this.makeLive === null || !model.trusted || model.data[WIDGET_TYPE] === undefined) {
      return;
    }
    const live = this.makeLive();
    this.live = live;
    this.observer.disconnect();
    this.observer.observe(live.node, { childList: true });
    this.addWidget(live);
    this.choose();
    await live.renderModel(model);
  }

  override dispose(): void {
    this.observer.disconnect();
    super.dispose();
  }

  private readonly choose = (): void => {
    const isLive = (this.live?.node.childElementCount ?? 0) > 0;
    this.still.setHidden(isLive);
    this.live?.setHidden(!isLive);
  };

  private readonly still = new Widget();
  private readonly observer = new MutationObserver(this.choose);
  private live: IRenderMime.IRenderer | null = null;
}

/** The still picture; a notebook may come from anywhere, so everything in it is shown as text. */
function drawn(still: IStill | null): Node[] {
  const text = (value: unknown): string => (typeof value === 'string' ? value : '');
  const rows = Array.isArray(still?.rows) ? (still.rows as unknown[]) : [];
  const table = element('table', '');
  for (const row of rows) {
    const [name, value] = Array.isArray(row) ? (row as unknown[]) : [];
    table.append(element('tr', '', {}, element('td', '', {}, text(name)), element('td', '', {}, text(value))));
  }
  const more = typeof still?.more === 'number' && still.more > 0 ? [element('p', '', {}, trans.__('%1 more', still.more))] : [];
  return [
    element(
      'p',
      'sbx-Still-head',
      {},
      element('strong', '', {}, text(still?.title)),
      element('span', '', {}, trans.__('%1, as it was on %2', text(still?.sandbox), text(still?.taken)))
    ),
    ...(rows.length > 0 ? [table] : []),
    ...more,
    element('p', 'sbx-Still-advice', {}, trans.__('Run the cell to reconnect.'))
  ];
}

import type { IRenderMime } from '@jupyterlab/rendermime-interfaces';
import { Widget } from '@lumino/widgets';
import { describe, expect, it, vi } from 'vitest';

import { STILL_TYPE, StillRenderer, WIDGET_TYPE } from '../../../src/lab/widgets/stillRenderer';
import { waitFor } from '../../waiting';

/** Draws like the renderer of ipywidgets: a text, and elements once it has the widget. */
class FakeLive extends Widget {
  renderModel(): Promise<void> {
    this.node.textContent = 'Error displaying widget: model not found';
    return Promise.resolve();
  }

  find(): void {
    this.node.replaceChildren(document.createElement('div'));
  }
}

function model(trusted: boolean, still: object = {}): IRenderMime.IMimeModel {
  const data = { [WIDGET_TYPE]: { model_id: 'm' }, [STILL_TYPE]: { title: 'Files', sandbox: 'box', ...still } };
  return { data, trusted } as unknown as IRenderMime.IMimeModel;
}

describe('a widget in a notebook that was opened again', () => {
  it('is shown as its still picture until the widget is there', async () => {
    const live = new FakeLive();
    const renderer = new StillRenderer(() => live);
    await renderer.renderModel(model(true, { rows: [['a.txt', '3 B']], more: 2 }));

    expect(live.isHidden).toBe(true);
    expect(renderer.node.textContent).toContain('a.txt3 B');
    expect(renderer.node.textContent).toContain('2 more');
    expect(renderer.node.textContent).toContain('Run the cell to reconnect.');

    live.find();
    await waitFor(() => {
      expect(live.isHidden).toBe(false);
    });
    expect(renderer.widgets[0]?.isHidden).toBe(true);
    renderer.dispose();
  });

  it('shows the picture again when the output no longer has the widget', async () => {
    const live = new FakeLive();
    const renderer = new StillRenderer(() => live);
    await renderer.renderModel(model(true));
    live.find();
    await waitFor(() => {
      expect(live.isHidden).toBe(false);
    });

    await renderer.renderModel(model(false));

    expect(renderer.widgets.map(({ isHidden }) => isHidden)).toEqual([false]);
    renderer.dispose();
  });

  it('draws nothing live in an output that is not trusted, and no HTML of the notebook', async () => {
    const makeLive = vi.fn();
    const renderer = new StillRenderer(makeLive);
    await renderer.renderModel(model(false, { title: '<img src=x>', rows: [[1, { a: 1 }], 'odd'], more: 'many' }));
    expect(makeLive).not.toHaveBeenCalled();
    expect(renderer.node.querySelector('img')).toBeNull();
    expect(renderer.node.textContent).toContain('<img src=x>');
  });
});

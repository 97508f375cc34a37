import type { IRenderMimeRegistry } from '@jupyterlab/rendermime';
import type { IRenderMime } from '@jupyterlab/rendermime-interfaces';
import { Widget } from '@lumino/widgets';
import { describe, expect, it } from 'vitest';

import { DIRECT_TYPE, DirectRenderer } from '../../../../src/lab/notebooks/drawing/directOutputs';

const WIDGET = 'application/vnd.jupyter.widget-view+json';

/** Knows types in the order of preference; the first is drawn in trusted outputs only. */
function registry(...types: string[]) {
  const drawn: { readonly type: string; readonly data: unknown; readonly trusted: boolean }[] = [];
  const rendermime = {
    preferredMimeType: (data: object, safe: string) =>
      types.find((type, at) => type in data && (at > 0 || safe === 'any')),
    createRenderer: (type: string) =>
      Object.assign(new Widget(), {
        renderModel: (model: IRenderMime.IMimeModel) => {
          drawn.push({ type, data: model.data, trusted: model.trusted });
          return Promise.resolve();
        }
      })
  };
  return { rendermime: rendermime as unknown as IRenderMimeRegistry, drawn };
}

async function render(types: string[], direct: object, marks: unknown) {
  const { rendermime, drawn } = registry(...types);
  const renderer = new DirectRenderer(rendermime, given => given === 'ours');
  const data = { [DIRECT_TYPE]: { marks, data: direct, metadata: {} }, 'text/html': 'safe', 'text/plain': 'text' };
  await renderer.renderModel({ data, metadata: {}, trusted: false, setData: () => undefined } as never);
  return drawn;
}

describe('a result with its direct form', () => {
  it('is drawn as the kernel sent it where the page may', async () => {
    const script = { 'application/javascript': 'act()', 'text/plain': 'x' };
    expect(await render(['application/javascript', 'text/html', 'text/plain'], script, 'ours')).toEqual([
      { type: 'application/javascript', data: script, trusted: true }
    ]);
  });

  it('is drawn by its safe formats, untrusted, everywhere else', async () => {
    const script = { 'application/javascript': 'act()', 'text/plain': 'x' };
    expect(await render(['application/javascript', 'text/html'], script, 'theirs')).toEqual([
      { type: 'text/html', data: { 'text/html': 'safe', 'text/plain': 'text' }, trusted: false }
    ]);
  });

  it('is drawn in a frame where the page has no renderer of widgets', async () => {
    const widget = { [WIDGET]: { model_id: 'm' }, 'text/plain': 'w' };
    const [drawn] = await render(['none', 'text/html', 'text/plain'], widget, 'ours');
    expect(drawn?.data).toEqual({ 'text/html': 'safe', 'text/plain': 'text' });
  });
});

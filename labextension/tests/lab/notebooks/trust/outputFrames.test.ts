import type { IRenderMime } from '@jupyterlab/rendermime-interfaces';
import { describe, expect, it, vi } from 'vitest';

import { framedHtmlFactory, parseFramed } from '../../../../src/lab/notebooks/trust/outputFrames';

const FRAME = '<iframe class="sbx-Frame" sandbox="allow-same-origin" style="height:90px" srcdoc="&lt;b&gt;hi&lt;/b&gt;"></iframe>';

async function render(html: string, trusted: boolean, mayDraw: boolean) {
  const node = document.createElement('div');
  const renderModel = vi.fn(() => Promise.resolve());
  const plain = { createRenderer: () => ({ node, renderModel }) } as unknown as IRenderMime.IRendererFactory;
  const renderer = framedHtmlFactory(plain, () => mayDraw).createRenderer({} as IRenderMime.IRendererOptions);
  await renderer.renderModel({ data: { 'text/html': html }, trusted } as unknown as IRenderMime.IMimeModel);
  return { node, plain: renderModel };
}

describe('a frame of an output', () => {
  it('is read with its height', () => {
    expect(parseFramed(FRAME)).toEqual({ content: '<b>hi</b>', height: 90 });
    expect(parseFramed(FRAME.replace('90px', '99999px'))?.height).toBe(2000);
  });

  it('is not read from HTML with anything else', () => {
    expect(parseFramed(`${FRAME}<img src=x>`)).toBeUndefined();
    expect(parseFramed('<b>plain</b>')).toBeUndefined();
    expect(parseFramed('<iframe class="sbx-Frame" src="about:blank"></iframe>')).toBeUndefined();
  });

  it('is drawn with an opaque origin, whatever it says of itself', async () => {
    const { node, plain } = await render(FRAME, false, true);
    expect(node.querySelector('iframe')?.getAttribute('sandbox')).toBe('allow-scripts');
    expect(plain).not.toHaveBeenCalled();
  });

  it('waits for a click in a notebook that has run nothing', async () => {
    const { node } = await render(FRAME, false, false);
    expect(node.querySelector('iframe')).toBeNull();
    node.querySelector('button')?.click();
    expect(node.querySelector('iframe')).not.toBeNull();
  });

  it('leaves other HTML to JupyterLab', async () => {
    const { plain } = await render('<table></table>', false, true);
    expect(plain).toHaveBeenCalledOnce();
  });
});

import { Signal } from '@lumino/signaling';
import { describe, expect, it } from 'vitest';

import { confineHtmlPreview } from '../../../../src/lab/notebooks/trust/htmlPreviews';

class Viewer {
  readonly content = { sandbox: ['allow-same-origin'] };
  readonly trustedChanged = new Signal<this, boolean>(this);
  trusted = false;

  trust(): void {
    this.trusted = true;
    this.content.sandbox = ['allow-same-origin', 'allow-scripts', 'allow-popups'];
    this.trustedChanged.emit(true);
  }
}

describe('the preview of an HTML file of a sandbox', () => {
  it('never has the origin of Jupyter', () => {
    const viewer = new Viewer();
    confineHtmlPreview(viewer);
    expect(viewer.content.sandbox).toEqual([]);
    viewer.trust();
    expect(viewer.content.sandbox).toEqual(['allow-scripts']);
  });

  it('leaves other widgets alone', () => {
    const widget = { content: {} };
    confineHtmlPreview(widget);
    expect(widget).toEqual({ content: {} });
  });
});

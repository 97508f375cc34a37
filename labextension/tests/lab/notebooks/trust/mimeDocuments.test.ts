import type { DocumentRegistry } from '@jupyterlab/docregistry';
import { describe, expect, it } from 'vitest';

import { confineMimeDocument, withholdMimeViewers } from '../../../../src/lab/notebooks/trust/mimeDocuments';

const VEGA = 'application/vnd.vega.v5+json';

type Factory = DocumentRegistry.WidgetFactory;

/** A viewer with the members of JupyterLab's class for renderers. */
function viewer(name: string, ...mimeTypes: string[]): Factory {
  const fileType = mimeTypes.length === 0 ? undefined : { mimeTypes };
  return { name, _dataType: 'json', _renderTimeout: 1000, _fileType: fileType } as unknown as Factory;
}

const EDITOR = { name: 'Editor', _dataType: 'string' } as unknown as Factory;
const JSON_VIEWER = viewer('JSON', 'application/json');
const VEGA_VIEWER = viewer('Vega5', VEGA);

class Registry {
  constructor(private readonly factories: Factory[]) {}

  preferredWidgetFactories(path: string): Factory[] {
    return path === '' ? [] : this.factories;
  }

  defaultWidgetFactory(path = ''): Factory {
    return this.preferredWidgetFactories(path)[0] ?? EDITOR;
  }

  defaultRenderedWidgetFactory(path: string): Factory {
    return path === '' ? EDITOR : (this.factories[0] ?? EDITOR);
  }
}

function guarded(...factories: Factory[]): Registry {
  const registry = new Registry(factories);
  withholdMimeViewers(registry, path => path.startsWith('sbx:'));
  return registry;
}

describe('the viewers for files of sandboxes', () => {
  it('leave out renderers that could act, also by default', () => {
    const registry = guarded(VEGA_VIEWER, EDITOR, JSON_VIEWER, viewer('Unknown'));
    expect(registry.preferredWidgetFactories('sbx:one/x.vg')).toEqual([EDITOR, JSON_VIEWER]);
    expect(registry.defaultWidgetFactory('sbx:one/x.vg')).toBe(EDITOR);
    expect(registry.defaultRenderedWidgetFactory('sbx:one/x.vg')).toBe(EDITOR);
  });

  it('keep those that show data only', () => {
    const registry = guarded(JSON_VIEWER, EDITOR);
    expect(registry.defaultWidgetFactory('sbx:one/x.json')).toBe(JSON_VIEWER);
    expect(registry.defaultRenderedWidgetFactory('sbx:one/x.json')).toBe(JSON_VIEWER);
  });

  it('are all there for other files', () => {
    const registry = guarded(VEGA_VIEWER, EDITOR);
    expect(registry.preferredWidgetFactories('x.vg')).toEqual([VEGA_VIEWER, EDITOR]);
    expect(registry.defaultRenderedWidgetFactory('x.vg')).toBe(VEGA_VIEWER);
  });
});

function open(mimeType: string, isInside: boolean) {
  const node = document.createElement('div');
  const renderModel = () => {
    node.textContent = 'drawn';
    return Promise.resolve();
  };
  const widget = { content: { mimeType, renderer: { node, renderModel } } };
  confineMimeDocument(widget, () => isInside);
  return { node, draw: () => widget.content.renderer.renderModel() };
}

describe('a document that a renderer draws', () => {
  it.each([
    [VEGA, true, 'stored in a sandbox'],
    [VEGA, false, 'drawn'],
    ['application/json', true, 'drawn']
  ])('of the type %s, in a sandbox: %s, shows: %s', async (type, isInside, text) => {
    const { node, draw } = open(type, isInside);
    await draw();
    expect(node.textContent).toContain(text);
  });

  it.each([{}, { content: null }, { content: {} }])('is not any other widget: %j', widget => {
    const before = structuredClone(widget);
    confineMimeDocument(widget, () => true);
    expect(widget).toEqual(before);
  });
});

import type { AnyModel, RenderProps } from '@anywidget/types';
import { afterEach, describe, expect, it, vi } from 'vitest';

import { renderWith } from '../../src/widget/view';

/** The traits of a widget as the page has them; `set` tells of a change, as Python does. */
class Traits {
  constructor(private readonly values: Record<string, unknown>) {}

  readonly get = (name: string): unknown => this.values[name];

  readonly set = (name: string, value: unknown): void => {
    this.values[name] = value;
    this.listeners.get(`change:${name}`)?.forEach(listener => {
      listener();
    });
  };

  readonly on = (event: string, listener: () => void): void => {
    this.listeners.set(event, (this.listeners.get(event) ?? new Set()).add(listener));
  };

  readonly off = (event: string, listener: () => void): void => {
    this.listeners.get(event)?.delete(listener);
  };

  readonly save_changes = vi.fn();
  readonly send = vi.fn();
  private readonly listeners = new Map<string, Set<() => void>>();
}

describe('the frame of a widget', () => {
  const el = document.createElement('div');
  const render = renderWith([], () => ({ dispose: () => undefined }));
  let stop = () => undefined as void;

  /** Renders a widget with these traits. */
  async function show(values: Record<string, unknown>): Promise<Traits> {
    const traits = new Traits(values);
    document.body.append(el);
    stop = await render({ model: traits as unknown as AnyModel, el } as unknown as RenderProps);
    return traits;
  }

  afterEach(() => {
    stop();
    el.remove();
  });

  it('says above the view, and to screen readers, that sandboxes are not isolated', async () => {
    await show({ warning: 'Not isolated', title: 'Files' });

    const warning = el.firstElementChild;
    expect(warning?.className).toBe('sbx-Widget-warning');
    expect(warning?.getAttribute('role')).toBe('alert');
    expect(warning?.textContent).toBe('Not isolated');
    expect(warning?.nextElementSibling?.className).toBe('sbx-Widget');
  });

  it('says it also when Python finds out later', async () => {
    const traits = await show({ warning: '', title: 'Files' });
    expect(el.querySelector('.sbx-Widget-warning')).toBeNull();

    traits.set('warning', 'Not isolated');
    expect(el.firstElementChild?.textContent).toBe('Not isolated');
  });

  it('leaves nothing behind', async () => {
    const traits = await show({ warning: 'Not isolated' });
    stop();
    traits.set('warning', 'again');

    expect(el.childElementCount).toBe(0);
  });
});

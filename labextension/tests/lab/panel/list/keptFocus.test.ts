import * as React from 'react';
import { flushSync } from 'react-dom';
import type { Root } from 'react-dom/client';
import { createRoot } from 'react-dom/client';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';

import { useKeptFocus } from '../../../../src/lab/panel/list/keptFocus';
import { waitFor } from '../../../waiting';

function Rows({ ids }: { readonly ids: readonly string[] }): React.JSX.Element {
  const list = React.useRef<HTMLDivElement>(null);
  const kept = useKeptFocus(list, ids);
  const rows = ids.map(id => React.createElement('button', { key: id, 'data-sandbox': id }, id));
  return React.createElement('div', { ref: list, ...kept }, ...rows);
}

function Panel({ ids }: { readonly ids: readonly string[] }): React.JSX.Element {
  const empty = React.createElement('div', { className: 'sbx-State' }, React.createElement('button', { className: 'sbx-Button' }, 'Create'));
  return React.createElement('div', { className: 'sbx-Panel' }, ids.length === 0 ? empty : React.createElement(Rows, { ids }));
}

describe('the focus in the list of sandboxes', () => {
  let root: Root;
  const show = (...ids: string[]) => { flushSync(() => { root.render(React.createElement(Panel, { ids })); }); };
  const row = (id: string) => document.querySelector<HTMLElement>(`[data-sandbox=${id}]`);
  const focused = () => document.activeElement?.textContent;

  beforeEach(() => {
    const host = document.createElement('div');
    document.body.replaceChildren(host);
    root = createRoot(host);
    show('a', 'b', 'c');
  });

  afterEach(() => {
    root.unmount();
  });

  it('goes to the row that takes the place of one that is gone', () => {
    row('b')?.focus();
    show('a', 'c');
    expect(focused()).toBe('c');
    show('a');
    expect(focused()).toBe('a');
  });

  it('stays with a row that moves', () => {
    row('c')?.focus();
    show('c', 'b', 'a');
    expect(focused()).toBe('c');
  });

  it('goes to the button of the empty panel after the last row', async () => {
    row('a')?.focus();
    show();
    await waitFor(() => { expect(focused()).toBe('Create'); });
  });

  it('is not taken from elsewhere', () => {
    row('b')?.focus();
    row('b')?.blur();
    show('a', 'c');
    expect(document.activeElement).toBe(document.body);
  });
});

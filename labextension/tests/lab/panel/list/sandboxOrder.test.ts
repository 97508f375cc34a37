import { describe, expect, it } from 'vitest';

import { freeSandboxName, grouped, matching, sorted, withFirst } from '../../../../src/lab/panel/list/sandboxOrder';
import type { ISandbox } from '../../../../src/protocol/sandboxes';
import { fakeSandbox } from '../../../fakeRecords';

function sandbox(name: string, startedAt: string, endAt: string, state: ISandbox['state'] = 'running'): ISandbox {
  return fakeSandbox(`i${name}`, { startedAt, endAt, state, metadata: { name } });
}

const items = [
  sandbox('data 10', '2026-01-01T00:00:00Z', '2026-01-01T03:00:00Z'),
  sandbox('data 9', '2026-01-02T00:00:00Z', '2026-01-02T01:00:00Z', 'paused'),
  sandbox('agent', '2026-01-01T12:00:00Z', '2026-01-01T02:00:00Z')
];
const names = (list: readonly ISandbox[]) => list.map(item => item.metadata?.['name']);

describe('the list of sandboxes', () => {
  it('is searched by name, id and template, word by word', () => {
    expect(names(matching(items, 'DATA 9'))).toEqual(['data 9']);
    expect(names(matching(items, 'base iagent'))).toEqual(['agent']);
    expect(names(matching(items, ' '))).toHaveLength(3);
    expect(matching(items, 'nothing')).toEqual([]);
  });

  it('is sorted by start, by name with numbers, and by what ends first', () => {
    expect(names(sorted(items, 'newest'))).toEqual(['data 9', 'agent', 'data 10']);
    expect(names(sorted(items, 'name'))).toEqual(['agent', 'data 9', 'data 10']);
    expect(names(sorted(items, 'left'))).toEqual(['agent', 'data 10', 'data 9']);
  });

  it('begins with the sandbox of the notebook in front', () => {
    expect(names(withFirst(items, 'iagent'))).toEqual(['agent', 'data 10', 'data 9']);
    expect(withFirst(items, undefined)).toBe(items);
  });

  it('is grouped by owner, the user’s own first', () => {
    const [first, second, third] = items as [ISandbox, ISandbox, ISandbox];
    const shared = [{ ...first, owner: 'zoë' }, second, { ...third, owner: 'a\u202elice' }];
    expect(grouped(shared, 'owner').map(({ title }) => title)).toEqual(['Mine', 'zoë', 'a\ufffdlice']);
    expect(names(matching(shared, 'zoë'))).toEqual(['data 10']);
  });

  it('is grouped by notebook, the one in front first', () => {
    const kernels = { current: 'iagent', has: (id: string) => id !== 'idata 9' };
    const groups = grouped(sorted(items, 'newest'), 'notebook', kernels);
    expect(groups.map(({ title, items: members }) => [title, ...names(members)])).toEqual([
      ['This notebook', 'agent'],
      ['Other kernels', 'data 10'],
      ['Without a kernel', 'data 9']
    ]);
    expect(grouped(items, 'none')).toEqual([{ title: '', items }]);
  });

  it('gives a new sandbox the lowest free number', () => {
    expect(freeSandboxName('local/base:default', [])).toBe('base-1');
    const taken = [sandbox('base-1', '2026-01-01T00:00:00Z', ''), sandbox('base-3', '2026-01-01T00:00:00Z', '')];
    expect(freeSandboxName('base', taken)).toBe('base-2');
  });
});

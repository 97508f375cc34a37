import { describe, expect, it, vi } from 'vitest';

import { TerminalLists } from '../../../src/lab/terminals/terminalLists';
import type { ITerminalInfo } from '../../../src/protocol/sandboxes';

const terminal = (pid: number): ITerminalInfo => ({ pid, cmd: 'sh', tag: null, name: '', viewers: [], link: '' });

describe('the terminals of many sandboxes', () => {
  it('asks six sandboxes at a time', async () => {
    let [open, most] = [0, 0];
    const lists = new TerminalLists(async () => {
      most = Math.max(most, (open += 1));
      await Promise.resolve();
      open -= 1;
      return [];
    });

    await lists.refresh(Array.from({ length: 200 }, (_, number) => `box-${number}`));

    expect(most).toBe(6);
  });

  it('asks one sandbox alone after a change in it, and once more for all changes that come meanwhile', async () => {
    const ask = vi.fn((id: string) => Promise.resolve([terminal(id.length)]));
    const lists = new TerminalLists(ask);
    await lists.refresh(['a', 'bb']);
    ask.mockClear();

    await Promise.all([lists.refreshOne('bb'), lists.refreshOne('bb'), lists.refreshOne('bb')]);

    expect(ask.mock.calls).toEqual([['bb'], ['bb']]);
    expect(lists.get('a')).toEqual([terminal(1)]);
  });

  it('shows no answer that is older than the last change', async () => {
    let running = [terminal(1)];
    const lists = new TerminalLists(() => {
      const found = running;
      return Promise.resolve().then(() => found);
    });

    const first = lists.refreshOne('a');
    running = [];
    await Promise.all([first, lists.refreshOne('a')]);

    expect(lists.get('a')).toEqual([]);
  });

  it('forgets sandboxes that are gone, and those that do not answer have none', async () => {
    const lists = new TerminalLists(id => (id === 'deaf' ? Promise.reject(new Error('no')) : Promise.resolve([terminal(1)])));
    await lists.refresh(['gone', 'deaf', 'kept']);

    await lists.refresh(['deaf', 'kept']);

    expect([lists.get('gone').length, lists.get('deaf').length, lists.get('kept').length]).toEqual([0, 0, 1]);
  });
});

import { act, createElement, useRef } from 'react';
import type { Root } from 'react-dom/client';
import { createRoot } from 'react-dom/client';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import { RowFacts } from '../../../../src/lab/panel/list/rowFacts';
import { SecondClock } from '../../../../src/lab/panel/list/secondClock';
import type { Usage } from '../../../../src/lab/panel/list/usage';
import { fakeSandbox } from '../../../fakeRecords';

const START = Date.parse('2026-01-01T00:00:00Z');
const sandbox = fakeSandbox('a', { startedAt: '2026-01-01T00:00:00Z', endAt: '2026-01-01T00:01:00Z' });

/** The browser's part: tells whether the row is in view. */
class FakeObserver {
  constructor(private readonly tell: (entries: { target: Element; isIntersecting: boolean }[]) => void) {
    FakeObserver.last = this;
  }

  observe(node: Element): void {
    this.seen.add(node);
  }

  unobserve(node: Element): void {
    this.seen.delete(node);
  }

  show(isIntersecting: boolean): void {
    this.tell([...this.seen].map(target => ({ target, isIntersecting })));
  }

  static last: FakeObserver;
  private readonly seen = new Set<Element>();
}

vi.stubGlobal('IntersectionObserver', FakeObserver);
vi.stubGlobal('IS_REACT_ACT_ENVIRONMENT', true);

function Row({ clock, usage }: { readonly clock: SecondClock; readonly usage: Usage }) {
  const row = useRef<HTMLLIElement>(null);
  return createElement('li', { ref: row }, createElement(RowFacts, { row, sandbox, activity: undefined, clock, usage }));
}

describe('the facts of a row', () => {
  let root: Root;
  let host: HTMLElement;
  const usage = { of: () => NONE, listen: vi.fn(() => () => undefined) };
  const left = () => host.querySelector('.sbx-Row-left')?.textContent;
  const pass = (seconds: number) => { act(() => { vi.advanceTimersByTime(seconds * 1000); }); };

  beforeEach(() => {
    vi.useFakeTimers({ now: START });
    host = document.createElement('div');
    document.body.replaceChildren(host);
    root = createRoot(host);
    const clock = new SecondClock(() => Date.now());
    act(() => { root.render(createElement(Row, { clock, usage: usage as unknown as Usage })); });
  });

  afterEach(() => {
    act(() => { root.unmount(); });
    vi.useRealTimers();
  });

  it('count the seconds', () => {
    expect(left()).toBe('1:00 left');
    pass(2);
    expect(left()).toBe('0:58 left');
  });

  it('rest while the row is out of view, and are right when it comes back', () => {
    act(() => { FakeObserver.last.show(false); });
    expect(vi.getTimerCount()).toBe(0);
    pass(10);
    expect(left()).toBe('1:00 left');
    act(() => { FakeObserver.last.show(true); });
    expect(left()).toBe('0:50 left');
    pass(1);
    expect(left()).toBe('0:49 left');
  });
});

const NONE: never[] = [];

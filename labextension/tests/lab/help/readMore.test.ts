import { afterEach, describe, expect, it, vi } from 'vitest';

import { pageNamed, readMore, setHelp, splitMessage } from '../../../src/lab/help/readMore';

describe('what leads to the documentation', () => {
  afterEach(() => { setHelp(null); });

  it('opens a page, after what closes a dialog', () => {
    const steps: string[] = [];
    setHelp(page => { steps.push(page); });
    readMore('storage', () => { steps.push('closed'); }).click();
    expect(steps).toEqual(['closed', 'storage']);
  });

  it('names the command where nothing can open a page', () => {
    expect(readMore('storage').textContent).toBe('Read more: jupyter sbx help storage');
  });

  it('takes no page from what is no name of one', () => {
    expect(['tiers', undefined, '', 'x; rm -r ~', '../x'].map(pageNamed)).toEqual(['tiers', undefined, undefined, undefined, undefined]);
  });

  it('takes the page out of a message', () => {
    const opener = vi.fn();
    setHelp(opener);
    const { text, page, open } = splitMessage('The disk is full: make room (jupyter sbx help storage).');
    open?.();
    expect([text, page]).toEqual(['The disk is full: make room.', 'storage']);
    expect(opener).toHaveBeenCalledWith('storage');
  });

  it('leaves a message that names no page, or where nothing can open one', () => {
    const named = 'Make room (jupyter sbx help storage)';
    expect(splitMessage(named)).toEqual({ text: named });
    setHelp(() => undefined);
    expect(splitMessage('Make room')).toEqual({ text: 'Make room' });
  });
});

import { afterEach, describe, expect, it, vi } from 'vitest';

import { poll } from '../../src/lab/polled';
import { waitFor } from '../waiting';

afterEach(() => {
  vi.restoreAllMocks();
});

describe('what a view reads again and again', () => {
  it('is read once the page is visible, if it was hidden at first', async () => {
    const hidden = vi.spyOn(document, 'hidden', 'get').mockReturnValue(true);
    const read = vi.fn(() => Promise.resolve('all'));
    const answers: string[] = [];
    const stop = poll(read, 0, answer => answers.push(answer), vi.fn());
    expect(read).not.toHaveBeenCalled();

    hidden.mockReturnValue(false);
    document.dispatchEvent(new Event('visibilitychange'));
    await waitFor(() => { expect(answers).toEqual(['all']); });
    document.dispatchEvent(new Event('visibilitychange'));
    expect(read).toHaveBeenCalledTimes(1);
    stop();
  });

  it('is told no more after its end', async () => {
    const [onAnswer, onFailure] = [vi.fn(), vi.fn()];
    let fail: (reason: Error) => void = () => undefined;
    const reading = new Promise<string>((_, reject) => { fail = reject; });
    poll(() => reading, 0, onAnswer, onFailure)();
    fail(new Error('gone'));
    await reading.catch(() => undefined);
    expect(onAnswer).not.toHaveBeenCalled();
    expect(onFailure).not.toHaveBeenCalled();
  });
});

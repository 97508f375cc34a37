import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import type { IUploadOptions } from '../../../src/components/files/upload';
import { TransferBar } from '../../../src/components/files/transferBar';
import { button } from '../../userEvents';

function bar() {
  const node = document.createElement('div');
  const view = new TransferBar(node);
  let options: IUploadOptions = {};
  let finish = () => undefined as void;
  const described = (done?: number, total?: number) => (done === undefined ? 'Uploading a.bin' : `Uploading a.bin: ${done} of ${total}`);
  const followed = view.follow(described, given => {
    options = given;
    return new Promise<void>((resolve, reject) => {
      finish = resolve;
      given.signal?.addEventListener('abort', () => {
        reject(new DOMException('stopped', 'AbortError'));
      });
    });
  });
  return { node, view, followed, progress: (done: number, total: number) => options.onProgress?.(done, total), finish: () => { finish(); } };
}

describe('the bar of a transfer', () => {
  beforeEach(() => {
    vi.useFakeTimers();
  });

  afterEach(() => {
    vi.useRealTimers();
  });

  it('is not shown for an transfer that is over at once', async () => {
    const { node, followed, finish } = bar();
    finish();
    await followed;
    vi.advanceTimersByTime(1000);
    expect(node.hidden).toBe(true);
  });

  it('shows how far a longer transfer is, until it ends', async () => {
    const { node, followed, progress, finish } = bar();
    vi.advanceTimersByTime(400);
    expect(node.hidden).toBe(false);
    expect(node.textContent).toContain('Uploading a.bin');

    progress(1024, 4096);
    expect(node.textContent).toContain('Uploading a.bin: 1024 of 4096');
    expect(node.querySelector('progress')?.value).toBe(1024);

    finish();
    await followed;
    expect(node.hidden).toBe(true);
  });

  it('stops the transfer with its button', async () => {
    const { node, followed } = bar();
    vi.advanceTimersByTime(400);
    button(node, 'Cancel').click();
    await expect(followed).rejects.toThrow('stopped');
    expect(node.hidden).toBe(true);
  });

  it('stops the transfer when its view goes', async () => {
    const { view, followed } = bar();
    view.dispose();
    await expect(followed).rejects.toThrow('stopped');
  });

  it('shows two at once, and cancels each by itself', async () => {
    const { node, view, followed, finish } = bar();
    const other = view.follow(
      () => 'Downloading b.bin',
      ({ signal }) =>
        new Promise((_, reject) => {
          signal?.addEventListener('abort', () => {
            reject(new DOMException('stopped', 'AbortError'));
          });
        })
    );
    vi.advanceTimersByTime(400);
    const [first, second] = [...node.querySelectorAll<HTMLElement>('.sbx-TransferBar-row')];
    expect([first?.querySelector('span')?.textContent, second?.querySelector('span')?.textContent]).toEqual(['Uploading a.bin', 'Downloading b.bin']);
    button(second as HTMLElement, 'Cancel').click();
    await expect(other).rejects.toThrow('stopped');
    expect(node.childElementCount).toBe(1);
    finish();
    await followed;
    expect(node.hidden).toBe(true);
  });
});

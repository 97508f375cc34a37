import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import type { IUploadOptions } from '../../../src/components/files/upload';
import { UploadBar } from '../../../src/components/files/uploadBar';
import { button } from '../../userEvents';

function bar() {
  const node = document.createElement('div');
  const view = new UploadBar(node);
  let options: IUploadOptions = {};
  let finish = () => undefined as void;
  const followed = view.follow(new File(['x'], 'a.bin'), given => {
    options = given;
    return new Promise((resolve, reject) => {
      finish = resolve;
      given.signal?.addEventListener('abort', () => {
        reject(new DOMException('stopped', 'AbortError'));
      });
    });
  });
  return { node, view, followed, progress: (done: number, total: number) => options.onProgress?.(done, total), finish: () => { finish(); } };
}

describe('the bar of an upload', () => {
  beforeEach(() => {
    vi.useFakeTimers();
  });

  afterEach(() => {
    vi.useRealTimers();
  });

  it('is not shown for an upload that is over at once', async () => {
    const { node, followed, finish } = bar();
    finish();
    await followed;
    vi.advanceTimersByTime(1000);
    expect(node.hidden).toBe(true);
  });

  it('shows how far a longer upload is, until it ends', async () => {
    const { node, followed, progress, finish } = bar();
    vi.advanceTimersByTime(400);
    expect(node.hidden).toBe(false);
    expect(node.textContent).toContain('Uploading a.bin');

    progress(1024, 4096);
    expect(node.textContent).toContain('Uploading a.bin: 1 KiB of 4 KiB');
    expect(node.querySelector('progress')?.value).toBe(1024);

    finish();
    await followed;
    expect(node.hidden).toBe(true);
  });

  it('stops the upload with its button', async () => {
    const { node, followed } = bar();
    vi.advanceTimersByTime(400);
    button(node, 'Cancel').click();
    await expect(followed).rejects.toThrow('stopped');
    expect(node.hidden).toBe(true);
  });

  it('stops the upload when its view goes', async () => {
    const { view, followed } = bar();
    view.dispose();
    await expect(followed).rejects.toThrow('stopped');
  });
});

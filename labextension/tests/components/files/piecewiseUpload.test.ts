import { describe, expect, it } from 'vitest';

import type { IPieceTarget } from '../../../src/components/files/piecewiseUpload';
import { uploadInPieces } from '../../../src/components/files/piecewiseUpload';
import { SandboxError } from '../../../src/protocol/errors';

/** A sandbox whose connection breaks as often as the test wants. */
class Target implements IPieceTarget {
  list(folder: string) {
    const names = [...this.files.keys()].filter(path => path.startsWith(`${folder}/`));
    return names.length === 0
      ? Promise.reject(new SandboxError('not_found', 'no such folder'))
      : Promise.resolve(names.map(path => ({ name: path.slice(folder.length + 1), path, size: this.files.get(path)?.length ?? 0 })));
  }

  async send(path: string, piece: Blob): Promise<void> {
    this.sent.push(path);
    if (this.failures > 0) {
      this.failures -= 1;
      this.files.set(path, '');
      throw this.reason;
    }
    this.files.set(path, await piece.text());
  }

  compose(sources: readonly string[], destination: string, size: number): Promise<void> {
    const whole = sources.map(path => this.files.get(path) ?? '').join('');
    expect(whole.length).toBe(size);
    sources.forEach(path => this.files.delete(path));
    this.files.set(destination, whole);
    return Promise.resolve();
  }

  remove(path: string): Promise<void> {
    [...this.files.keys()].filter(name => name.startsWith(`${path}/`)).forEach(name => this.files.delete(name));
    return Promise.resolve();
  }

  readonly files = new Map<string, string>();
  readonly sent: string[] = [];
  failures = 0;
  reason: Error = new TypeError('the connection was lost');
}

const file = new File(['0123456789'], 'ten.txt', { lastModified: 1 });
const upload = (target: Target, options = {}) => uploadInPieces(target, '/home/ten.txt', file, options, 4, 0);

describe('an upload in pieces', () => {
  it('sends all pieces and joins them', async () => {
    const target = new Target();
    const progress: number[] = [];
    await upload(target, { onProgress: (done: number) => progress.push(done) });
    expect([...target.files]).toEqual([['/home/ten.txt', '0123456789']]);
    expect(progress).toEqual([4, 8, 10]);
    expect(target.sent[0]).toMatch(/^\/home\/\.ten\.txt\.upload-[0-9a-f]{8}\/00000$/);
  });

  it('sends a piece again when the connection was lost', async () => {
    const target = new Target();
    target.failures = 2;
    await upload(target);
    expect(target.files.get('/home/ten.txt')).toBe('0123456789');
    expect(target.sent.length).toBe(5);
  });

  it('goes on where an earlier upload stopped', async () => {
    const target = new Target();
    const send = target.send.bind(target);
    target.send = async (path, piece) => {
      await send(path, piece);
      target.failures = 4;
    };
    await expect(upload(target)).rejects.toThrow('lost');
    target.failures = 0;
    target.send = send;
    target.sent.length = 0;
    await upload(target);
    expect(target.files.get('/home/ten.txt')).toBe('0123456789');
    expect(target.sent.map(path => path.slice(-1))).toEqual(['1', '2']);
  });

  it('does not try again when the sandbox refuses', async () => {
    const target = new Target();
    target.failures = 1;
    target.reason = new SandboxError('resource_exhausted', 'The disk is full.');
    await expect(upload(target)).rejects.toThrow('full');
    expect(target.sent.length).toBe(1);
  });

  it('removes its pieces when it is cancelled', async () => {
    const target = new Target();
    const controller = new AbortController();
    const onProgress = () => { controller.abort(); };
    await expect(upload(target, { signal: controller.signal, onProgress })).rejects.toThrow();
    expect(target.files.size).toBe(0);
  });
});

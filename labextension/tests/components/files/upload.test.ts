import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import { isAbort, postWithProgress, xsrfCookie } from '../../../src/components/files/upload';

/** A request that the test drives by hand. */
class FakeRequest extends EventTarget {
  constructor() {
    super();
    FakeRequest.latest = this;
  }

  open(method: string, url: string): void {
    this.target = `${method} ${url}`;
  }

  setRequestHeader(name: string, value: string): void {
    this.headers[name] = value;
  }

  send(body: unknown): void {
    this.body = body;
  }

  abort(): void {
    this.dispatchEvent(new Event('abort'));
  }

  answer(status: number, responseText: string): void {
    Object.assign(this, { status, responseText });
    this.dispatchEvent(new Event('load'));
  }

  static latest: FakeRequest;
  readonly upload = new EventTarget();
  readonly headers: Record<string, string> = {};
  withCredentials = false;
  target = '';
  body: unknown = null;
  status = 0;
  statusText = '';
  responseText = '';
}

function post(signal?: AbortSignal) {
  const progress: number[][] = [];
  const onProgress = (...now: number[]) => progress.push(now);
  const answer = postWithProgress('/files', new Blob(['x']), new Headers({ 'X-XSRFToken': 't' }), { onProgress, signal });
  return { answer, progress, request: FakeRequest.latest };
}

describe('an upload', () => {
  beforeEach(() => {
    vi.stubGlobal('XMLHttpRequest', FakeRequest);
  });

  afterEach(() => {
    vi.unstubAllGlobals();
    document.cookie = '_xsrf=; expires=Thu, 01 Jan 1970 00:00:00 GMT';
  });

  it('sends the bytes with the cookies of the page and reports progress', async () => {
    const { answer, progress, request } = post();
    request.upload.dispatchEvent(Object.assign(new Event('progress'), { loaded: 3, total: 9 }));
    request.answer(200, '{"ok": true}');

    expect(await (await answer).json()).toEqual({ ok: true });
    expect(progress).toEqual([[3, 9]]);
    expect(request.target).toBe('POST /files');
    expect(request.withCredentials).toBe(true);
    expect(new Headers(request.headers).get('X-XSRFToken')).toBe('t');
    expect(request.body).toBeInstanceOf(Blob);
  });

  it('takes an empty answer', async () => {
    const { answer, request } = post();
    request.answer(204, '');
    expect((await answer).status).toBe(204);
  });

  it('throws what the server says went wrong', async () => {
    const { answer, request } = post();
    request.answer(507, '{"code": "resource_exhausted", "message": "The disk is full."}');
    await expect(answer).rejects.toThrow('The disk is full.');
  });

  it('says that it broke off when the connection is lost', async () => {
    const { answer, request } = post();
    request.dispatchEvent(new Event('error'));
    await expect(answer).rejects.toThrow('The upload failed: the connection was lost.');
  });

  it('stops when the user cancels', async () => {
    const controller = new AbortController();
    const { answer } = post(controller.signal);
    controller.abort();
    const reason: unknown = await answer.catch((thrown: unknown) => thrown);
    expect(isAbort(reason)).toBe(true);
    expect(isAbort(new Error('other'))).toBe(false);
  });

  it('does not begin when it was cancelled before', async () => {
    const { answer, request } = post(AbortSignal.abort());
    await expect(answer).rejects.toThrow();
    expect(request.body).toBeNull();
  });

  it('reads the cookie that a Jupyter server wants to see again', () => {
    expect(xsrfCookie()).toBeUndefined();
    document.cookie = 'other_xsrf=no';
    document.cookie = '_xsrf=2|abc';
    expect(xsrfCookie()).toBe('2|abc');
  });
});

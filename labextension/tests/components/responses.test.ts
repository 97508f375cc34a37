import { describe, expect, it } from 'vitest';

import { answered, bytesAtMost, checkResponse } from '../../src/components/responses';

describe('responses of the server', () => {
  it('throws the sentence of the server', async () => {
    const response = new Response('{"code": "not_found", "message": "No such sandbox."}', { status: 404 });
    await expect(checkResponse(response)).rejects.toMatchObject({ code: 'not_found', message: 'No such sandbox.' });
  });

  it('says the status of an answer that is no JSON', async () => {
    const response = new Response('<html>', { status: 502, statusText: 'Bad Gateway' });
    await expect(checkResponse(response)).rejects.toThrow('The server answered 502 Bad Gateway.');
  });

  it('says that the server does not answer, whatever words the browser has for that', async () => {
    const failed = Promise.reject(new TypeError('Failed to fetch'));
    await expect(answered(failed)).rejects.toMatchObject({ code: 'network', message: 'The Jupyter server does not answer.' });
  });

  it('passes on that a request was cancelled', async () => {
    const stopped = new DOMException('stopped', 'AbortError');
    await expect(answered(Promise.reject(stopped))).rejects.toBe(stopped);
  });

  it('reads no more of a body than it may have', async () => {
    let asked = 0;
    const endless = new ReadableStream({
      pull: controller => {
        asked += 1;
        controller.enqueue(new Uint8Array(1000));
      }
    });
    expect(await bytesAtMost(new Response(endless), 2500)).toBeNull();
    expect(asked).toBeLessThan(6);
    expect(await bytesAtMost(new Response('abc'), 3)).toEqual(new TextEncoder().encode('abc'));
    expect(await bytesAtMost(new Response(null), 3)).toEqual(new Uint8Array());
  });
});

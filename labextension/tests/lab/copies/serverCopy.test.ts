import { describe, expect, it } from 'vitest';

import { SandboxApi } from '../../../src/components/sandboxApi';
import { copyOnServer } from '../../../src/lab/copies/serverCopy';
import type { ICopyProgress } from '../../../src/lab/copies/copyTree';
import { FakeServer } from '../../fakeServer';

const copy = { sourceSandboxID: null, targetSandboxID: 'id1', jobs: [{ source: 'a', target: '/b' }], existing: 'replace' } as const;
const progress = { files: 1, allFiles: 2, bytes: 3, allBytes: 4 };

function streamed(...events: [string, object][]): Response {
  const text = events.map(([name, data], id) => `id: ${id}\nevent: ${name}\ndata: ${JSON.stringify(data)}\n\n`).join('');
  return new Response(text, { headers: { 'Content-Type': 'text/event-stream' } });
}

function run(answer: Response, seen: ICopyProgress[] = []) {
  const server = new FakeServer();
  server.answer = answer;
  return copyOnServer(new SandboxApi(server), copy, { signal: new AbortController().signal, onProgress: each => seen.push(each) });
}

describe('a copy by the server', () => {
  it('reports progress and what failed', async () => {
    const seen: ICopyProgress[] = [];
    const end = { copied: 1, failures: [{ name: '/b/c', message: 'gone' }], failureCount: 1, links: 2 };
    const result = await run(streamed(['progress', progress], ['end', end]), seen);
    expect(seen).toEqual([progress]);
    expect(result).toEqual({ failures: [{ name: 'c', message: 'gone' }], links: 2 });
  });

  it('fails when the stream ends before the copy', async () => {
    await expect(run(streamed(['progress', progress]))).rejects.toThrow('broke the copy off');
  });

  it('says why the server refuses', async () => {
    const body = JSON.stringify({ code: 'not_found', message: 'a is not there' });
    await expect(run(new Response(body, { status: 404 }))).rejects.toThrow('a is not there');
  });
});

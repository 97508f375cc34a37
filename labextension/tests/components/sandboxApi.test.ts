import { describe, expect, it } from 'vitest';

import { SandboxApi } from '../../src/components/sandboxApi';
import type { ListedSandbox } from '../../src/protocol/api';
import { FakeServer } from '../fakeServer';

function api(answer: Response = Response.json({})) {
  const server = new FakeServer();
  server.answer = answer;
  return { server, api: new SandboxApi(server) };
}

const PATH = { sandbox_id: 'i/1' };

describe('the typed routes', () => {
  it('fill in path and query, and send a body as JSON', async () => {
    const { api: made, server } = api();
    await made.post('/sandboxes/{sandbox_id}/timeout', { path: PATH, query: { connection: 'lab' }, body: { timeout: 5 } });
    expect(server.requests).toEqual([
      { method: 'POST', url: '/sbx/api/sandboxes/i%2F1/timeout?connection=lab', body: '{"timeout":5}' }
    ]);
  });

  it('give what the route answers, nothing for an empty answer', async () => {
    const logs: readonly { readonly message: string }[] = (await api(Response.json({ logs: [] })).api.get('/sandboxes/{sandbox_id}/logs', { path: PATH })).logs;
    expect(logs).toEqual([]);
    await expect(api(new Response(null, { status: 204 })).api.delete('/secrets/{name}', { path: { name: 'KEY' } })).resolves.toBeUndefined();
    const renamed = api(Response.json({ sandboxID: 'i1' }));
    const sandbox: ListedSandbox = await renamed.api.patch('/sandboxes/{sandbox_id}', { path: PATH, body: { name: 'x' } });
    expect(sandbox.sandboxID).toBe('i1');
  });

  it('reject with the code and the sentence of the server', async () => {
    const refusal = Response.json({ code: 'not_found', message: 'No such sandbox.' }, { status: 404 });
    await expect(api(refusal).api.get('/info')).rejects.toMatchObject({ code: 'not_found', message: 'No such sandbox.' });
  });

  it('tell each event with the data of its name', async () => {
    const text = 'id: 1\nevent: ended\ndata: {"sandboxID": "i1"}\n\n';
    const { api: made } = api(new Response(text, { headers: { 'Content-Type': 'text/event-stream' } }));
    const ended: string[] = [];
    for await (const event of made.events('get', '/events', {})) {
      if (event.name === 'ended') {
        ended.push(event.data.sandboxID);
      }
    }
    expect(ended).toEqual(['i1']);
  });

  it('give addresses, sockets and bytes', async () => {
    const { api: made, server } = api(new Response('[]'));
    expect(made.url('/sandboxes/{sandbox_id}/files', { path: PATH, query: { path: '/a b' } })).toBe('/sbx/api/sandboxes/i%2F1/files?path=%2Fa+b');
    made.socket('/sandboxes/{sandbox_id}/watch', { path: PATH, query: { path: '/a' } });
    expect(server.socket.url).toBe('/sbx/api/sandboxes/i%2F1/watch?path=%2Fa');
    await made.send('/sandboxes/{sandbox_id}/files', { path: PATH, query: { path: '/a' } }, new Uint8Array([1]));
    expect(server.requests[0]).toMatchObject({ method: 'POST', body: new Uint8Array([1]) });
  });

  it('are checked when this file is compiled', () => {
    const { api: made } = api();
    // @ts-expect-error the route has no such verb
    const wrongVerb = () => made.post('/info');
    // @ts-expect-error the path needs its parameter
    const noPath = () => made.get('/sandboxes/{sandbox_id}/logs');
    // @ts-expect-error a timeout is a number
    const wrongBody = () => made.post('/sandboxes/{sandbox_id}/timeout', { path: PATH, body: { timeout: '5' } });
    // @ts-expect-error the route has no such parameter
    const wrongQuery = () => made.get('/sandboxes/{sandbox_id}/logs', { path: PATH, query: { most: 5 } });
    expect([wrongVerb, noPath, wrongBody, wrongQuery]).toHaveLength(4);
  });
});

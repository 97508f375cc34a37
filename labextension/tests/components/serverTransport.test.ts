import { describe, expect, it } from 'vitest';

import { ServerTransport } from '../../src/components/serverTransport';
import { FakeServer } from '../fakeServer';

const RPC = '/sbx/api/sandboxes/box/rpc/filesystem.Filesystem';

function transport(answer: BodyInit | object = {}, status = 200) {
  const server = new FakeServer();
  const isBody = typeof answer === 'string' || answer instanceof Uint8Array;
  server.answer = new Response(isBody ? (answer as BodyInit) : JSON.stringify(answer), { status });
  return { server, transport: new ServerTransport(server, 'box') };
}

describe('the transport through the Jupyter server', () => {
  it('lists a directory', async () => {
    const { server, transport: made } = transport({ entries: [{ name: 'a', path: '/a' }] });
    expect(await made.list('/')).toEqual([{ name: 'a', path: '/a' }]);
    expect(server.requests).toEqual([{ method: 'POST', url: `${RPC}/ListDir`, body: '{"path":"/","depth":1}' }]);
  });

  it('takes an answer without entries for an empty directory', async () => {
    expect(await transport().transport.list('/')).toEqual([]);
  });

  it('gives one entry', async () => {
    const { transport: made } = transport({ entry: { name: 'a', path: '/a' } });
    expect(await made.stat('/a')).toEqual({ name: 'a', path: '/a' });
  });

  it('reads and writes a file as bytes', async () => {
    const { server, transport: made } = transport(new Uint8Array([1, 255]));
    expect([...(await made.read('/a b'))]).toEqual([1, 255]);
    server.answer = new Response('{}');
    await made.write('/a b', new Uint8Array([2]));
    expect(server.requests.map(({ method, url }) => `${method} ${url}`)).toEqual([
      'GET /sbx/api/sandboxes/box/files?path=%2Fa+b',
      'POST /sbx/api/sandboxes/box/files?path=%2Fa+b'
    ]);
  });

  it('makes, moves and removes entries', async () => {
    const calls: [string, (made: ServerTransport) => Promise<void>, object][] = [
      ['MakeDir', made => made.makeDir('/d'), { path: '/d' }],
      ['Move', made => made.move('/a', '/b'), { source: '/a', destination: '/b' }],
      ['Remove', made => made.remove('/a'), { path: '/a' }]
    ];
    for (const [method, call, body] of calls) {
      const { server, transport: made } = transport();
      await call(made);
      expect(server.requests).toEqual([{ method: 'POST', url: `${RPC}/${method}`, body: JSON.stringify(body) }]);
    }
  });

  it('throws what the server says went wrong', async () => {
    const { transport: made } = transport({ code: 'not_found', message: '/a does not exist' }, 404);
    await expect(made.read('/a')).rejects.toMatchObject({ code: 'not_found', message: '/a does not exist' });
  });

  it('refuses to ask about no sandbox', () => {
    const made = new ServerTransport(new FakeServer(), '');
    expect(() => made.fileUrl('/a')).toThrow('No sandbox is chosen.');
  });

  it('uploads with progress', async () => {
    const { server, transport: made } = transport();
    const seen: number[][] = [];
    await made.upload('/a', new Blob(['x']), { onProgress: (...progress) => seen.push(progress) });
    expect(seen).toEqual([[1, 2]]);
    expect(server.requests[0]?.url).toBe(made.fileUrl('/a'));
  });

  it('reads the metrics of now and of before', async () => {
    const { server, transport: made } = transport({ ts: 5 });
    expect(await made.metrics()).toEqual({ ts: 5 });
    server.answer = new Response('[{"timestampUnix": 4, "memUsed": 7}]');
    expect(await made.history(1, 9)).toMatchObject([{ ts: 4, mem_used: 7 }]);
    expect(server.requests[1]?.url).toBe('/sbx/api/sandboxes/box/metrics/history?start=1&end=9');
  });

  it('watches a directory until the socket closes', () => {
    const { server, transport: made } = transport();
    const heard: unknown[] = [];
    made.watch('/home', event => heard.push(event), () => heard.push('end'));
    server.socket.receive('{"name": "a", "type": "EVENT_TYPE_WRITE"}');
    server.socket.receive('{"keepalive": {}}');
    server.socket.drop();
    server.socket.drop();

    expect(server.socket.url).toBe('/sbx/api/sandboxes/box/watch?path=%2Fhome');
    expect(heard).toEqual([{ name: 'a', type: 'EVENT_TYPE_WRITE' }, 'end']);
  });

  it('reports no end of a watch that was stopped', () => {
    const { server, transport: made } = transport();
    let ended = false;
    made.watch('/home', () => undefined, () => (ended = true))();
    expect(server.socket.readyState).toBe(WebSocket.CLOSED);
    expect(ended).toBe(false);
    made.dispose();
  });

  it('opens a terminal with its size and its place in the output', () => {
    const { server, transport: made } = transport();
    const started: number[] = [];
    const ignore = () => undefined;
    made.openTerminal(
      { cols: 80, rows: 24, pid: 3, since: 10 },
      { onStart: ({ pid }) => started.push(pid), onData: ignore, onExit: ignore, onClose: ignore }
    );
    server.socket.receive('{"pid": 3, "sequence": 10}');
    expect(server.socket.url).toBe('/sbx/api/sandboxes/box/terminal?cols=80&rows=24&pid=3&since=10');
    expect(started).toEqual([3]);
  });
});

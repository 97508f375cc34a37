import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import { Sandboxes } from '../../src/lab/sandboxes';
import type { ServerEvent } from '../../src/lab/serverEvents';
import type { ISandbox } from '../../src/protocol/sandboxes';
import { FakeServer } from '../fakeServer';

const sandbox = (sandboxID: string, startedAt: string) => ({ sandboxID, startedAt }) as unknown as ISandbox;
const OLD = sandbox('old', '2026-01-01T00:00:00Z');
const NEW = sandbox('new', '2026-01-02T00:00:00Z');

/** A server whose events the test sends by hand. */
class EventServer extends FakeServer {
  override async request(parts: readonly string[], init: RequestInit = {}): Promise<Response> {
    await super.request(parts, init);
    if (this.isBroken && parts[0] === 'sandboxes') {
      return Response.json({ code: 'unavailable', message: 'Not now.' }, { status: 503 });
    }
    if (parts[0] !== 'events') {
      return Response.json({ sandboxes: [OLD], kernels: [], version: '1' });
    }
    this.lastIds.push(new Headers(init.headers).get('Last-Event-ID'));
    init.signal?.addEventListener('abort', () => this.stream?.error(new Error('aborted')));
    const body = new ReadableStream<Uint8Array>({ start: stream => void (this.stream = stream) });
    return new Response(body, { headers: { 'Content-Type': 'text/event-stream' } });
  }

  async send(text: string): Promise<void> {
    this.stream?.enqueue(new TextEncoder().encode(text));
    await vi.advanceTimersByTimeAsync(0);
  }

  tell(name: string, data: unknown, id: string): Promise<void> {
    return this.send(`id: ${id}\nevent: ${name}\ndata: ${JSON.stringify(data)}\n\n`);
  }

  count(path: string): number {
    return this.requests.filter(({ url }) => url.endsWith(path)).length;
  }

  isBroken = false;
  stream: ReadableStreamDefaultController<Uint8Array> | null = null;
  readonly lastIds: (string | null)[] = [];
}

describe('the events of a server', () => {
  beforeEach(() => {
    vi.useFakeTimers();
  });

  afterEach(() => {
    vi.useRealTimers();
  });

  async function following() {
    const server = new EventServer();
    const sandboxes = new Sandboxes(server);
    const unwatch = sandboxes.watch();
    await vi.advanceTimersByTimeAsync(0);
    const ids = () => sandboxes.items?.map(({ sandboxID }) => sandboxID);
    return { server, sandboxes, unwatch, ids };
  }

  it('take the place of asking, and show what changes', async () => {
    const { server, sandboxes, ids } = await following();
    await server.tell('state', { sandboxes: [OLD], kernels: [], info: { version: '2' } }, 'a-1');
    const asked = server.count('/sandboxes');
    await server.tell('sandbox', NEW, 'a-2');
    expect(ids()).toEqual(['new', 'old']);
    await server.tell('ended', { sandboxID: 'old' }, 'a-3');
    expect(ids()).toEqual(['new']);
    expect(sandboxes.info).toEqual({ version: '2' });
    for (let round = 0; round < 8; round += 1) {
      await vi.advanceTimersByTimeAsync(10_000);
      await server.send(': alive\n\n');
    }
    expect(server.count('/sandboxes')).toBe(asked);
    sandboxes.dispose();
  });

  it('go on after the last one that was seen when the connection breaks, and are polled meanwhile', async () => {
    const { server, sandboxes } = await following();
    await server.tell('state', { sandboxes: [OLD], kernels: [], info: {} }, 'a-7');
    const asked = server.count('/sandboxes');
    server.stream?.error(new Error('cut'));
    await vi.advanceTimersByTimeAsync(10_000);
    expect(server.lastIds).toEqual([null, 'a-7']);
    expect(server.count('/sandboxes')).toBeGreaterThan(asked);
    sandboxes.dispose();
  });

  it('are taken for broken when nothing comes for long', async () => {
    const { server, sandboxes } = await following();
    await server.tell('state', { sandboxes: [], kernels: [], info: {} }, 'a-1');
    await vi.advanceTimersByTimeAsync(50_000);
    expect(server.lastIds.length).toBeGreaterThan(1);
    sandboxes.dispose();
  });

  it('end when nobody watches', async () => {
    const { server, sandboxes, unwatch } = await following();
    await server.tell('state', { sandboxes: [], kernels: [], info: {} }, 'a-1');
    unwatch();
    await vi.advanceTimersByTimeAsync(120_000);
    expect(server.lastIds).toEqual([null]);
    sandboxes.dispose();
  });

  it.each([
    ['the next event', (server: EventServer) => server.tell('kernels', [], 'a-2')],
    ['the next poll', () => vi.advanceTimersByTimeAsync(6000)]
  ])('let the list be asked for again at %s, when only its request failed', async (_, happen) => {
    const { server, sandboxes } = await following();
    await server.tell('state', { sandboxes: [OLD], kernels: [], info: {} }, 'a-1');
    server.isBroken = true;
    await sandboxes.refresh();
    expect(sandboxes.error).not.toBeNull();

    server.isBroken = false;
    await happen(server);
    await vi.advanceTimersByTimeAsync(0);
    expect(sandboxes.error).toBeNull();
    sandboxes.dispose();
  });

  it('tell of a problem until it is over, without a question meanwhile', async () => {
    const { server, sandboxes } = await following();
    await server.tell('problem', { code: 'unavailable', message: 'No engine.' }, 'a-1');
    const asked = server.count('/sandboxes');
    await server.tell('kernels', [], 'a-2');
    await vi.advanceTimersByTimeAsync(20_000);
    expect(server.count('/sandboxes')).toBe(asked);
    expect(sandboxes.error?.message).toBe('No engine.');

    await server.tell('problem', null, 'a-3');
    expect(sandboxes.error).toBeNull();
    sandboxes.dispose();
  });

  it('say what other panels are to read again', async () => {
    const { server, sandboxes } = await following();
    const told: ServerEvent[] = [];
    sandboxes.told.connect((_, event) => told.push(event));
    await server.tell('changed', { volumes: ['v1'] }, 'a-1');
    expect(told).toEqual([{ name: 'changed', data: { volumes: ['v1'] } }]);
    sandboxes.dispose();
  });
});

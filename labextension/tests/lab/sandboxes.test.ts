import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import { Sandboxes } from '../../src/lab/sandboxes';
import type { ISandbox } from '../../src/protocol/sandboxes';
import { fakeSandbox } from '../fakeRecords';
import { FakeServer } from '../fakeServer';

const sandbox = (sandboxID: string, startedAt: string) => ({ sandboxID, startedAt }) as unknown as ISandbox;
const OLD = sandbox('old', '2026-01-01T00:00:00Z');
const NEW = sandbox('new', '2026-01-02T00:00:00Z');

/** A server with a list of sandboxes; `answers` replaces the answer to a request. */
class SandboxServer extends FakeServer {
  override async request(parts: readonly string[], init: RequestInit = {}): Promise<Response> {
    await super.request(parts, init);
    const key = `${init.method ?? 'GET'} ${parts.join('/')}`;
    const answer = this.answers[key] ?? { 'GET sandboxes': { sandboxes: this.listed }, 'GET info': { version: '1' } }[key] ?? {};
    return answer instanceof Promise ? (answer as Promise<Response>) : Response.json(answer);
  }

  listed: readonly ISandbox[] = [OLD, NEW];
  readonly answers: Record<string, object> = {};
}

function model() {
  const server = new SandboxServer();
  const sandboxes = new Sandboxes(server);
  const ids = () => sandboxes.items?.map(({ sandboxID }) => sandboxID);
  return { server, sandboxes, ids };
}

const failing = (status: number, body: object) => Promise.resolve(Response.json(body, { status }));

describe('the sandboxes of a server', () => {
  beforeEach(() => {
    vi.useFakeTimers();
  });

  afterEach(() => {
    vi.useRealTimers();
  });

  it('are not known before the first answer, then listed newest first', async () => {
    const { sandboxes, ids } = model();
    expect(sandboxes.items).toBeNull();
    await sandboxes.refresh();
    expect(ids()).toEqual(['new', 'old']);
    expect(sandboxes.info).toEqual({ version: '1' });
  });

  it('stay the same objects while nothing about them changes, so that nothing is drawn again', async () => {
    const { server, sandboxes } = model();
    await sandboxes.refresh();
    const [first, second] = sandboxes.items ?? [];
    server.listed = [{ ...OLD, state: 'paused' }, { ...NEW }];
    await sandboxes.refresh();
    expect(sandboxes.items?.[0]).toBe(first);
    expect(sandboxes.items?.[1]).not.toBe(second);
    expect(sandboxes.items?.[1]?.state).toBe('paused');
  });

  it('are not listed while they are only kept ready', async () => {
    const { server, sandboxes, ids } = model();
    server.listed = [OLD, { ...NEW, metadata: { 'sbx-ready-for': 'kernel' } }];
    await sandboxes.refresh();
    expect(ids()).toEqual(['old']);
  });

  it('stay listed when the server fails, with what to do about it', async () => {
    const { server, sandboxes, ids } = model();
    await sandboxes.refresh();
    server.answers['GET sandboxes'] = failing(503, { code: 'unavailable', message: 'No engine.' });
    await sandboxes.refresh();

    expect(ids()).toEqual(['new', 'old']);
    expect(sandboxes.error).toMatchObject({ message: 'No engine.', command: 'jupyter sbx doctor' });
  });

  it('have a new one at once, before the next list', async () => {
    const { server, sandboxes, ids } = model();
    await sandboxes.refresh();
    server.answers['POST sandboxes'] = sandbox('made', '2026-01-03T00:00:00Z');
    const creation = sandboxes.create({ name: 'made' });
    expect(sandboxes.creating).toBe(1);
    await creation;

    expect(ids()).toEqual(['made', 'new', 'old']);
    expect(sandboxes.creating).toBe(0);
  });

  it('do not get a killed one back from a list that was asked for before', async () => {
    const { server, sandboxes, ids } = model();
    await sandboxes.refresh();
    let answer: (response: Response) => void = () => undefined;
    server.answers['GET sandboxes'] = new Promise<Response>(resolve => (answer = resolve));
    const late = sandboxes.refresh();
    await sandboxes.kill('old');
    answer(Response.json({ sandboxes: [OLD, NEW] }));
    await late;

    expect(ids()).toEqual(['new']);
  });

  it('say what is done to one of them while it is done', async () => {
    const { server, sandboxes } = model();
    let finish: (response: Response) => void = () => undefined;
    server.answers['POST sandboxes/old/snapshots'] = new Promise<Response>(resolve => (finish = resolve));
    server.answers['GET sandboxes/old/operations'] = { operations: [{ kind: 'snapshot', doneBytes: 5 }] };
    const taken = sandboxes.snapshot('old', 'kept');
    expect(sandboxes.activity('old')).toEqual({ kind: 'snapshotting', operation: null });
    await vi.advanceTimersByTimeAsync(700);
    expect(sandboxes.activity('old')?.operation).toMatchObject({ doneBytes: 5 });

    finish(Response.json({ snapshotID: 's1', names: [] }));
    expect(await taken).toEqual({ snapshotID: 's1', names: [] });
    expect(sandboxes.activity('old')).toBeUndefined();
  });

  it('throw what the server says when a change fails', async () => {
    const { server, sandboxes } = model();
    server.answers['POST sandboxes/old/pause'] = failing(409, { code: 'aborted', message: 'It is being resumed.' });
    await expect(sandboxes.pause('old')).rejects.toThrow('It is being resumed.');
    expect(sandboxes.activity('old')).toBeUndefined();
  });

  it.each([
    ['resume', (made: Sandboxes) => made.resume('old', 60), 'POST sandboxes/old/connect', '{"timeout":60}'],
    ['set a timeout', (made: Sandboxes) => made.setTimeout('old', 60), 'POST sandboxes/old/timeout', '{"timeout":60}'],
    ['rename', (made: Sandboxes) => made.rename('old', 'x'), 'PATCH sandboxes/old', '{"name":"x"}'],
    ['fork', (made: Sandboxes) => made.fork('old', 'x', 60), 'POST sandboxes/old/fork', '{"name":"x","timeout":60}'],
    ['cancel', (made: Sandboxes) => made.cancel('old', 'o1'), 'DELETE sandboxes/old/operations/o1', undefined],
    ['delete a template', (made: Sandboxes) => made.removeTemplate('t1'), 'DELETE templates/t1', undefined]
  ])('are asked to %s', async (_, call, request, body) => {
    const { server, sandboxes } = model();
    await call(sandboxes);
    const sent = server.requests.map(made => [`${made.method} ${made.url.replace('/sbx/api/', '')}`, made.body]);
    expect(sent[0]).toEqual([request, body]);
  });

  it('end by the clock of the server', async () => {
    const { server, sandboxes } = model();
    vi.setSystemTime('2026-01-01T00:00:00Z');
    const headers = { Date: 'Thu, 01 Jan 2026 00:01:00 GMT' };
    server.answers['GET sandboxes'] = Promise.resolve(Response.json({ sandboxes: [] }, { headers }));
    await sandboxes.refresh();
    expect(sandboxes.now() - Date.now()).toBe(60_000);
  });

  it('are polled only while somebody watches', async () => {
    const { server, sandboxes } = model();
    const lists = () => server.requests.filter(({ url }) => url === '/sbx/api/sandboxes').length;
    await vi.advanceTimersByTimeAsync(20_000);
    expect(lists()).toBe(0);

    const stop = sandboxes.watch();
    await vi.advanceTimersByTimeAsync(5100);
    expect(lists()).toBe(2);

    stop();
    await vi.advanceTimersByTimeAsync(30_000);
    expect(lists()).toBeLessThanOrEqual(3);
    sandboxes.dispose();
  });

  it('count as paused from the moment in which they are to be paused, so that nothing wakes them', async () => {
    const { server, sandboxes } = model();
    server.listed = [fakeSandbox('old')];
    expect(sandboxes.stateOf('old')).toBeNull();
    await sandboxes.refresh();
    expect(sandboxes.stateOf('old')).toBe('running');

    let finish: (response: Response) => void = () => undefined;
    server.answers['POST sandboxes/old/pause'] = new Promise<Response>(resolve => (finish = resolve));
    const states = new Set<unknown>();
    sandboxes.changed.connect(() => states.add(sandboxes.stateOf('old')));
    const paused = sandboxes.pause('old');
    server.listed = [fakeSandbox('old', { state: 'paused' })];
    finish(Response.json({}));
    await paused;
    await sandboxes.refresh();
    expect([...states]).toEqual(['paused']);
    expect(sandboxes.stateOf('other')).toBe('ended');
  });
});

import type { ISessionContext } from '@jupyterlab/apputils';
import type { Session } from '@jupyterlab/services';
import { describe, expect, it, vi } from 'vitest';

import { HostKernels } from '../../../src/lab/notebooks/hostKernels';

const contents = {
  driveName: (path: string) => (path.includes(':') ? (path.split(':')[0] ?? '') : ''),
  localPath: (path: string) => path.split(':').at(-1) ?? ''
};

function setUp(answer: boolean) {
  const ask = vi.fn(() => Promise.resolve(answer));
  const startInside = vi.fn(() => Promise.resolve('k1'));
  const failed = vi.fn();
  const isSandboxed = (kernel: string) => kernel === 'sbx-python3';
  const places = { isSandboxed, startInside, ask, failed };
  const kernels = new HostKernels(contents, 'sbx', id => Promise.resolve(id === 'id1'), places);
  const changeKernel = vi.fn(() => Promise.resolve(null));
  const startKernel = vi.fn(() => Promise.resolve(false));
  const session = { kernelPreference: { name: 'python3', autoStartDefault: true }, session: null, changeKernel, startKernel };
  const document = (path: string) => ({ path, sessionContext: session as unknown as ISessionContext });
  return { ask, kernels, session, document, changeKernel, startKernel, startInside, failed };
}

describe('a kernel of the host', () => {
  it('is not started by opening a notebook of a sandbox', async () => {
    const { kernels, session, document, startKernel } = setUp(true);
    kernels.guard(document('sbx:id1/work.ipynb'));
    expect(session.kernelPreference).toEqual({ name: 'python3', shouldStart: false, autoStartDefault: false });
    expect(await session.startKernel()).toBe(true);
    expect(startKernel).not.toHaveBeenCalled();
  });

  it('is attached after the user agreed, and asked about once for each file', async () => {
    const { kernels, session, document, ask, changeKernel } = setUp(true);
    kernels.guard(document('sbx:id1/work.ipynb'));
    const change = session.changeKernel as (options: object) => Promise<null>;
    await change({ name: 'python3' });
    await change({ name: 'other' });
    expect(changeKernel).toHaveBeenCalledTimes(2);
    expect(ask.mock.calls).toEqual([['id1', 'python3']]);
  });

  it('is not attached after a no', async () => {
    const { kernels, session, document, changeKernel } = setUp(false);
    kernels.guard(document('sbx:id1/work.ipynb'));
    await (session.changeKernel as (options: object) => Promise<null>)({ name: 'python3' });
    expect(changeKernel).not.toHaveBeenCalled();
  });

  it('can be shut down without a question', async () => {
    const { kernels, session, document, ask, changeKernel } = setUp(false);
    kernels.guard(document('sbx:id1/work.ipynb'));
    await (session.changeKernel as (options: object) => Promise<null>)({});
    expect(ask).not.toHaveBeenCalled();
    expect(changeKernel).toHaveBeenCalled();
  });

  it('starts as ever for files of the host', () => {
    const { kernels, session, document, changeKernel } = setUp(false);
    kernels.guard(document('work.ipynb'));
    expect(session.kernelPreference).toEqual({ name: 'python3', autoStartDefault: true });
    expect(session.changeKernel).toBe(changeKernel);
  });

  it('is refused to a console for a file of a sandbox after a no', async () => {
    const { kernels } = setUp(false);
    const started = vi.fn(() => Promise.resolve({} as never));
    const sessions: Pick<Session.IManager, 'startNew'> = { startNew: started };
    kernels.guardSessions(sessions);
    const options = { name: 'c', type: 'console', kernel: { name: 'python3' } };
    await expect(sessions.startNew({ ...options, path: 'sbx:id1/work.py' })).rejects.toThrow('No kernel');
    await expect(sessions.startNew({ ...options, path: 'id1/work.py' })).rejects.toThrow('No kernel');
    await sessions.startNew({ ...options, path: 'work.py' });
    expect(started).toHaveBeenCalledTimes(1);
  });
});

describe('a kernel of the file’s own sandbox', () => {
  it('is started there, without a question', async () => {
    const { kernels, session, document, ask, changeKernel, startInside } = setUp(false);
    kernels.guard(document('sbx:id1/home/work.ipynb'));
    await (session.changeKernel as (options: object) => Promise<null>)({ name: 'sbx-python3' });
    expect(startInside.mock.calls).toEqual([['id1', 'sbx-python3', '/home/work.ipynb']]);
    expect(changeKernel.mock.calls).toEqual([[{ id: 'k1' }]]);
    expect(ask).not.toHaveBeenCalled();
  });

  it('is used by sessions, also by those of consoles', async () => {
    const { kernels, ask } = setUp(false);
    const startNew = vi.fn<(options: object) => Promise<Session.ISessionConnection>>(() => Promise.resolve({} as never));
    const sessions = { startNew };
    kernels.guardSessions(sessions);
    const options = { path: 'id1/work.py', type: 'console', name: 'x', kernel: { name: 'sbx-python3' } };
    await sessions.startNew(options);
    await sessions.startNew({ ...options, kernel: { id: 'k1' } });
    expect(startNew.mock.calls.map(([given]) => given)).toEqual(
      [1, 2].map(() => expect.objectContaining({ kernel: { id: 'k1' } }) as object)
    );
    expect(ask).not.toHaveBeenCalled();
  });

  it('that cannot start is told, and no other one takes its place', async () => {
    const { kernels, session, document, changeKernel, startInside, failed } = setUp(true);
    startInside.mockRejectedValue(new Error('no python'));
    kernels.guard(document('sbx:id1/work.ipynb'));
    await (session.changeKernel as (options: object) => Promise<null>)({ name: 'sbx-python3' });
    expect(failed).toHaveBeenCalledOnce();
    expect(changeKernel).not.toHaveBeenCalled();
  });
});

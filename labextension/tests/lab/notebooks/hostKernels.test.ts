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
  const kernels = new HostKernels(contents, 'sbx', id => Promise.resolve(id === 'id1'), ask);
  const changeKernel = vi.fn(() => Promise.resolve(null));
  const startKernel = vi.fn(() => Promise.resolve(false));
  const session = { kernelPreference: { name: 'python3', autoStartDefault: true }, session: null, changeKernel, startKernel };
  const document = (path: string) => ({ path, sessionContext: session as unknown as ISessionContext });
  return { ask, kernels, session, document, changeKernel, startKernel };
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

import { Notification } from '@jupyterlab/apputils';
import { CommandRegistry } from '@lumino/commands';
import { expect, it, vi } from 'vitest';

import { SandboxCommands } from '../../../src/lab/panel/commands';
import type { Sandboxes } from '../../../src/lab/sandboxes';
import type { Settings } from '../../../src/lab/settings';
import { SandboxError } from '../../../src/protocol/errors';
import { fakeSandbox } from '../../fakeRecords';

vi.mock('@jupyterlab/apputils', () => ({ Notification: { error: vi.fn() } }));
vi.mock('@jupyterlab/ui-components', () => ({ LabIcon: Object }));
vi.mock('../../../src/lab/panel/dialogs', () => ({}));

it('resumes a paused sandbox before something is opened on it, and says why it could not', async () => {
  const resume = vi.fn().mockResolvedValueOnce(undefined);
  const settings = { current: { defaultTimeout: 60 } } as unknown as Settings;
  const commands = new SandboxCommands({ resume } as unknown as Sandboxes, settings, new CommandRegistry(), () => undefined);
  expect(await commands.ensureRunning(fakeSandbox('a'))).toBe(true);
  expect(resume).not.toHaveBeenCalled();
  expect(await commands.ensureRunning(fakeSandbox('a', { state: 'paused' }))).toBe(true);
  expect(resume).toHaveBeenCalledWith('a', 60);
  resume.mockRejectedValueOnce(new SandboxError('resource_exhausted', 'No memory is left.'));
  expect(await commands.ensureRunning(fakeSandbox('a', { state: 'paused' }))).toBe(false);
  expect(vi.mocked(Notification.error).mock.calls[0]?.[0]).toBe('a could not be resumed. No memory is left.');
});

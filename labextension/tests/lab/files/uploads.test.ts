import { Dialog, Notification, showDialog } from '@jupyterlab/apputils';
import type { FileBrowserModel } from '@jupyterlab/filebrowser';
import type { ServerConnection } from '@jupyterlab/services';
import { beforeEach, describe, expect, it, vi } from 'vitest';

import { SandboxDrive } from '../../../src/lab/files/drive';
import { uploadWithoutChunks } from '../../../src/lab/files/uploads';
import type { Sandboxes } from '../../../src/lab/sandboxes';
import { SandboxError } from '../../../src/protocol/errors';
import { FakeTransport } from '../../fakeTransport';

vi.mock('@jupyterlab/apputils', () => ({
  Dialog: { cancelButton: vi.fn(), warnButton: vi.fn() },
  Notification: { error: vi.fn() },
  showDialog: vi.fn()
}));
vi.mock('@jupyterlab/ui-components', () => ({ ToolbarButton: Object }));

/** A browser at `/home` that lists nothing, as it does while a filter is in force. */
function setUp() {
  const transport = new FakeTransport(
    new Map<string, string | null>([
      ['/home', null],
      ['/home/a.txt', 'one'],
      ['/home/sub', null],
      ['/home/sub/b.txt', 'two']
    ])
  );
  const sandboxes = { transport: () => transport } as unknown as Sandboxes;
  const drive = new SandboxDrive(sandboxes, {} as ServerConnection.ISettings, () => ({ type: 'file', mimetype: '' }));
  const listed = { path: 'sbx:id1/home', items: () => [].values(), refresh: () => Promise.resolve() };
  const model = listed as unknown as FileBrowserModel;
  uploadWithoutChunks(model, drive);
  return { transport, model };
}

function answer(accept: boolean): void {
  vi.mocked(showDialog).mockResolvedValue({ button: { accept } } as never);
}

describe('an upload to a sandbox', () => {
  beforeEach(() => {
    vi.mocked(showDialog).mockReset();
    vi.mocked(Notification.error).mockReset();
  });

  it('asks before it replaces a file that is not listed', async () => {
    const { transport, model } = setUp();
    answer(false);
    await expect(model.upload(new File(['new'], 'a.txt'))).rejects.toThrow('a.txt was not uploaded.');
    expect(transport.files.get('/home/a.txt')).toBe('one');
    expect(Notification.error).not.toHaveBeenCalled();
    answer(true);
    await model.upload(new File(['new'], 'a.txt'));
    expect(transport.files.get('/home/a.txt')).toBe('new');
    expect(Dialog.warnButton).toHaveBeenCalledWith({ label: 'Replace' });
  });

  it('looks in the folder that it goes to', async () => {
    const { transport, model } = setUp();
    await model.upload(new File(['new'], 'a.txt'), 'sbx:id1/home/sub');
    expect(transport.files.get('/home/sub/a.txt')).toBe('new');
    expect(showDialog).not.toHaveBeenCalled();
    answer(false);
    await expect(model.upload(new File(['new'], 'b.txt'), 'sbx:id1/home/sub')).rejects.toThrow();
    expect(transport.files.get('/home/sub/b.txt')).toBe('two');
  });

  it('says why it did not begin', async () => {
    const { transport, model } = setUp();
    vi.spyOn(transport, 'stat').mockRejectedValue(new SandboxError('unavailable', 'The engine does not answer.'));
    await expect(model.upload(new File(['new'], 'c.txt'))).rejects.toThrow();
    expect(vi.mocked(Notification.error).mock.calls[0]?.[0]).toContain('The engine does not answer.');
    expect(transport.files.has('/home/c.txt')).toBe(false);
  });
});

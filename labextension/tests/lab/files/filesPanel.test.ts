import type { FileBrowser } from '@jupyterlab/filebrowser';
import { Notification } from '@jupyterlab/apputils';
import { CommandRegistry } from '@lumino/commands';
import { Signal } from '@lumino/signaling';
import { Panel, Widget } from '@lumino/widgets';
import { beforeEach, describe, expect, it, vi } from 'vitest';

import { FilesPanel } from '../../../src/lab/files/filesPanel';
import { Listings } from '../../../src/lab/files/listings';
import type { Sandboxes } from '../../../src/lab/sandboxes';
import { SandboxError } from '../../../src/protocol/errors';
import { fakeSandbox } from '../../fakeRecords';

vi.mock('@jupyterlab/apputils', () => ({ Notification: { error: vi.fn() } }));
vi.mock('@jupyterlab/ui-components', () => ({ LabIcon: Object, ToolbarButton: Object, fileUploadIcon: {}, newFolderIcon: {}, refreshIcon: {} }));

function setUp() {
  const model = {
    path: 'sbx:',
    manager: { services: { contents: { localPath: (path: string) => path.slice('sbx:'.length) } } }
  };
  const signals = {
    pathChanged: new Signal<object, void>(model),
    connectionFailure: new Signal<object, Error>(model),
    refreshed: new Signal<object, void>(model)
  };
  const toolbar = new Panel();
  const browser = Object.assign(new Panel(), {
    model: Object.assign(model, signals),
    toolbar: {
      addItem: (_: string, item: unknown) => {
        if (item instanceof Widget) {
          toolbar.addWidget(item);
        }
      }
    }
  });
  browser.addWidget(toolbar);
  const changed = new Signal<object, void>(browser);
  const items = [fakeSandbox('a', { metadata: { name: 'one' } }), fakeSandbox('b', { metadata: { name: 'two' } })];
  const sandboxes = {
    items,
    error: null as object | null,
    changed,
    find: (id: string) => items.find(({ sandboxID }) => sandboxID === id),
    refresh: () => Promise.resolve(),
    watch: () => () => undefined
  };
  const listings = new Listings();
  new FilesPanel(browser as unknown as FileBrowser, sandboxes as unknown as Sandboxes, new CommandRegistry(), listings);
  const go = (path: string) => {
    model.path = `sbx:${path}`;
    signals.pathChanged.emit();
  };
  const list = () => {
    listings.note(model.path.slice('sbx:'.length), { entries: [], matching: 0, total: 0 }, '');
    signals.refreshed.emit();
  };
  const fail = (message: string, code = 'permission_denied') => {
    signals.connectionFailure.emit(new SandboxError(code, message));
    signals.refreshed.emit();
  };
  const name = () => browser.node.querySelector('.sbx-FileBrowser-name')?.textContent;
  const notice = () => {
    const node = browser.node.querySelector('.sbx-FileBrowser-ended');
    return node?.classList.contains('lm-mod-hidden') ? null : node?.textContent;
  };
  const end = (id: string) => {
    items.splice(items.findIndex(({ sandboxID }) => sandboxID === id), 1);
    changed.emit();
  };
  return { browser, go, list, fail, name, notice, end, items, changed, sandboxes };
}

const told = () => vi.mocked(Notification.error).mock.calls.map(([text]) => text);

describe('the panel with the files of a sandbox', () => {
  beforeEach(() => {
    vi.mocked(Notification.error).mockReset();
  });

  it('names the sandbox whose files are shown, however the user came there', () => {
    const { go, name, browser, items, changed } = setUp();
    expect(name()).toBe('All sandboxes');
    go('a/home/user');
    expect(name()).toBe('one');
    expect(browser.title.caption).toBe('Files of sandbox one');
    go('');
    expect(name()).toBe('All sandboxes');
    go('b');
    expect(name()).toBe('two');
    items[1] = fakeSandbox('b', { metadata: { name: 'three' } });
    changed.emit();
    expect(name()).toBe('three');
  });

  it('says that the sandbox that is shown has ended, and nothing of it once another is shown', () => {
    const { go, notice, browser, end, name, sandboxes } = setUp();
    go('a/home/user');
    end('a');
    expect(notice()).toContain('one has ended; its files are gone.');
    expect(browser.hasClass('sbx-mod-ended')).toBe(true);
    expect(name()).toBe('one');
    sandboxes.error = { message: 'The list could not be read.' };
    go('b/home/user');
    expect([notice(), browser.hasClass('sbx-mod-ended')]).toEqual([null, false]);
    sandboxes.error = null;
    end('b');
    expect(notice()).toContain('two has ended');
  });

  it('says once why a folder could not be listed, and again after a listing', async () => {
    const { go, list, fail, name } = setUp();
    go('a/home/user');
    list();
    fail('/root cannot be read.');
    fail('/root cannot be read.');
    await Promise.resolve();
    expect(told()).toEqual(['The files could not be listed. /root cannot be read.']);
    expect(name()).toBe('one');
    list();
    fail('/root cannot be read.');
    await Promise.resolve();
    expect(told()).toHaveLength(2);
  });

  it('leaves it to the notice that the files of an ended sandbox cannot be listed', async () => {
    const { go, fail, end } = setUp();
    go('a/home/user');
    end('a');
    fail('There is no sandbox a.', 'not_found');
    await Promise.resolve();
    expect(told()).toEqual([]);
  });
});

import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import { FilesView } from '../../../src/components/files/filesView';
import { SandboxError } from '../../../src/protocol/errors';
import { FakeTransport } from '../../fakeTransport';
import { button, enter, press } from '../../userEvents';
import { waitFor } from '../../waiting';

async function shown(extra: [string, string | null][] = []) {
  const transport = new FakeTransport(
    new Map<string, string | null>([['/home', null], ['/home/a.txt', 'one'], ['/home/b.txt', 'two'], ...extra])
  );
  const node = document.createElement('div');
  document.body.append(node);
  const view = new FilesView(node, transport, '/home');
  const names = () => [...node.querySelectorAll('.sbx-FileTree-name')].map(name => name.textContent);
  const row = (name: string) => node.querySelector<HTMLElement>(`[role=treeitem][aria-label="${name}"]`);
  const message = () => node.querySelector<HTMLElement>('.sbx-Files-message');
  const dialog = () => node.querySelector<HTMLFormElement>('.sbx-InlineDialog-form');
  const open = async (name: string) => {
    row(name)?.querySelector<HTMLElement>('.sbx-FileTree-row')?.click();
    return waitFor(() => {
      const text = node.querySelector<HTMLTextAreaElement>('.sbx-FileEditor-text');
      expect(text?.getAttribute('aria-label')).toBe(`/home/${name}`);
      return text as HTMLTextAreaElement;
    });
  };
  const answer = async (text?: string) => {
    const form = await waitFor(() => {
      const found = dialog();
      expect(found).not.toBeNull();
      return found as HTMLFormElement;
    });
    const field = form.querySelector('input');
    if (text !== undefined && field) {
      enter(field, text);
    }
    form.requestSubmit();
  };
  await waitFor(() => {
    expect(names()).toContain('b.txt');
  });
  return { transport, node, view, names, row, message, dialog, open, answer };
}

/** A file list as a picker or a drop gives it. */
function choose(node: Element, ...files: File[]): void {
  const picker = node.querySelector<HTMLInputElement>('.sbx-Files-picker');
  if (picker) {
    Object.defineProperty(picker, 'files', { value: files, configurable: true });
    picker.dispatchEvent(new Event('change'));
  }
}

describe('the file browser of the widgets', () => {
  beforeEach(() => {
    document.body.replaceChildren();
  });

  afterEach(() => {
    vi.useRealTimers();
    vi.restoreAllMocks();
  });

  it('gives the focus back to a row that was drawn again while it asked', async () => {
    const { transport, view, row } = await shown();
    const before = row('b.txt');
    before?.focus();
    press(before, 'Delete');
    view.refresh();
    await waitFor(() => {
      expect(row('b.txt')).not.toBe(before);
    });
    press(document.activeElement, 'Escape');

    expect(document.activeElement).toBe(row('b.txt'));
    expect(transport.files.has('/home/b.txt')).toBe(true);
    view.dispose();
  });

  it('shows the file that was opened last, whichever answer comes first', async () => {
    const { transport, row, open, view } = await shown();
    const read = transport.read.bind(transport);
    let answer: () => void = () => undefined;
    vi.spyOn(transport, 'read').mockImplementationOnce(async path => {
      await new Promise<void>(resolve => { answer = resolve; });
      return read(path);
    });
    row('a.txt')?.querySelector<HTMLElement>('.sbx-FileTree-row')?.click();
    enter(await open('b.txt'), 'typed meanwhile');
    answer();
    await new Promise(resolve => setTimeout(resolve, 0));
    expect((await open('b.txt')).value).toBe('typed meanwhile');
    view.dispose();
  });

  it('keeps saying why something failed when the directory is read again', async () => {
    const { transport, row, names, answer, message, view } = await shown();
    vi.spyOn(transport, 'remove').mockRejectedValue(new SandboxError('permission_denied', 'Not yours.'));
    row('b.txt')?.focus();
    press(row('b.txt'), 'Delete');
    await answer();
    await waitFor(() => { expect(message()?.hidden).toBe(false); });
    transport.files.set('/home/new.txt', '');
    transport.change('new.txt');
    await waitFor(() => { expect(names()).toContain('new.txt'); });
    expect(message()?.textContent).toContain('Not yours.');
    expect(message()?.hidden).toBe(false);
    view.dispose();
  });

  it('opens a text file and saves what is changed in it', async () => {
    const { transport, node, open } = await shown();
    const text = await open('a.txt');
    expect(text.value).toBe('one');

    enter(text, 'three');
    button(node, 'Save').click();

    await waitFor(() => {
      expect(transport.files.get('/home/a.txt')).toBe('three');
    });
  });

  it('asks before changes are lost by opening another file', async () => {
    const { node, open, row, answer } = await shown();
    enter(await open('a.txt'), 'changed');
    row('b.txt')?.querySelector<HTMLElement>('.sbx-FileTree-row')?.click();
    await waitFor(() => {
      expect(node.textContent).toContain('a.txt has changes that are not saved.');
    });
    await answer();

    expect((await open('b.txt')).value).toBe('two');
  });

  it('keeps the changes when the user cancels', async () => {
    const { node, open, row } = await shown();
    const text = await open('a.txt');
    enter(text, 'changed');
    row('b.txt')?.querySelector<HTMLElement>('.sbx-FileTree-row')?.click();
    await waitFor(() => {
      button(node, 'Cancel').click();
    });
    expect(node.querySelector<HTMLTextAreaElement>('.sbx-FileEditor-text')?.value).toBe('changed');
  });

  it('asks about what is typed while another file is read', async () => {
    const { transport, node, open, row, dialog, answer } = await shown();
    enter(await open('a.txt'), 'agreed to lose');
    const read = transport.read.bind(transport);
    let arrive: () => void = () => undefined;
    const reading = vi.spyOn(transport, 'read').mockImplementation(async path => {
      await new Promise<void>(resolve => { arrive = resolve; });
      return read(path);
    });
    const pick = async () => {
      row('b.txt')?.querySelector<HTMLElement>('.sbx-FileTree-row')?.click();
      await answer();
      await waitFor(() => { expect(reading).toHaveBeenCalled(); });
    };
    await pick();
    const text = node.querySelector<HTMLTextAreaElement>('.sbx-FileEditor-text') as HTMLTextAreaElement;
    enter(text, 'typed meanwhile');
    arrive();
    await waitFor(() => { expect(dialog()?.textContent).toContain('not saved'); });
    button(node, 'Cancel').click();
    await new Promise(resolve => setTimeout(resolve, 0));
    expect(node.querySelector<HTMLTextAreaElement>('.sbx-FileEditor-text')?.value).toBe('typed meanwhile');
    reading.mockClear();
    await pick();
    arrive();
    expect((await open('b.txt')).value).toBe('two');
  });

  it('closes the editor', async () => {
    const { node, open } = await shown();
    await open('a.txt');
    button(node, 'Close a.txt').click();
    await waitFor(() => {
      expect(node.querySelector('.sbx-FileEditor-text')).toBeNull();
    });
  });

  it('offers a file that is no text for download', async () => {
    const { transport, row, message } = await shown();
    transport.read = () => Promise.resolve(new Uint8Array([0xff, 0xfe]));
    press(row('a.txt'), 'Enter');
    await waitFor(() => {
      expect(message()?.textContent).toBe('a.txt is not text.Download');
    });
    expect(message()?.hidden).toBe(false);
  });

  it('does not open a file that is too large', async () => {
    const { row, message } = await shown([['/home/c.txt', 'x'.repeat(2 ** 20 + 1)]]);
    press(row('c.txt'), 'Enter');
    await waitFor(() => {
      expect(message()?.textContent).toBe('c.txt is too large to open here: 1 MiB.Download');
    });
  });

  it('leaves a download to the browser, which shows its progress', async () => {
    const { node, transport } = await shown();
    const read = vi.spyOn(transport, 'read');
    const saved: string[] = [];
    vi.spyOn(HTMLAnchorElement.prototype, 'click').mockImplementation(function (this: HTMLAnchorElement) {
      saved.push(`${this.download} ${this.getAttribute('href')}`);
    });
    button(node, 'Download a.txt').click();
    expect(saved).toEqual(['a.txt files?path=/home/a.txt']);
    expect(read).not.toHaveBeenCalled();
  });

  it('shows a download through the kernel, which can be cancelled', async () => {
    const { node, transport, message } = await shown();
    const read = (_: string, signal?: AbortSignal) =>
      new Promise((_resolve, reject) => {
        signal?.addEventListener('abort', () => {
          reject(new DOMException('stopped', 'AbortError'));
        });
      });
    Object.assign(transport, { fileUrl: undefined, read });
    button(node, 'Download a.txt').click();
    await waitFor(() => {
      expect(node.querySelector('.sbx-TransferBar')?.textContent).toContain('Downloading a.txt');
    });
    button(node, 'Cancel').click();
    await waitFor(() => {
      expect(node.querySelector<HTMLElement>('.sbx-TransferBar')?.hidden).toBe(true);
    });
    expect(message()?.hidden).toBe(true);
  });

  it('downloads a file through the kernel under its name', async () => {
    const { node, transport } = await shown();
    Object.assign(transport, { fileUrl: undefined });
    let saved = '';
    vi.spyOn(URL, 'createObjectURL').mockReturnValue('blob:one');
    const revoked = vi.spyOn(URL, 'revokeObjectURL').mockReturnValue();
    vi.spyOn(HTMLAnchorElement.prototype, 'click').mockImplementation(function (this: HTMLAnchorElement) {
      saved = `${this.download} ${this.href}`;
    });
    button(node, 'Download a.txt').click();
    await waitFor(() => {
      expect(revoked).toHaveBeenCalledWith('blob:one');
    });
    expect(saved).toBe('a.txt blob:one');
  });

  it('renames a file', async () => {
    const { row, names, answer } = await shown();
    press(row('a.txt'), 'F2');
    await answer('z.txt');
    await waitFor(() => {
      expect(names()).toEqual(['b.txt', 'z.txt']);
    });
  });

  it('asks before a renamed file replaces another', async () => {
    const { row, names, answer, node, transport } = await shown();
    const ask = async () => {
      press(row('a.txt'), 'F2');
      await answer('b.txt');
      await waitFor(() => {
        expect(node.textContent).toContain('Replace b.txt?');
      });
    };
    await ask();
    button(node, 'Cancel').click();
    await new Promise(resolve => setTimeout(resolve, 0));
    expect([transport.files.get('/home/a.txt'), transport.files.get('/home/b.txt')]).toEqual(['one', 'two']);
    await ask();
    await answer();
    await waitFor(() => {
      expect(names()).toEqual(['b.txt']);
    });
    expect(transport.files.get('/home/b.txt')).toBe('one');
  });

  it('moves a file into a folder that is to be made', async () => {
    const { row, transport, answer } = await shown();
    press(row('a.txt'), 'F2');
    await answer('new/a.txt');
    await waitFor(() => {
      expect(transport.files.get('/home/new/a.txt')).toBe('one');
    });
  });

  it('deletes a file once the user agrees', async () => {
    const { row, names, answer, node } = await shown();
    press(row('a.txt'), 'Delete');
    await waitFor(() => {
      expect(node.textContent).toContain('Delete /home/a.txt? This cannot be undone.');
    });
    await answer();
    await waitFor(() => {
      expect(names()).toEqual(['b.txt']);
    });
  });

  it('makes a folder', async () => {
    const { node, names, answer } = await shown();
    button(node, 'New folder').click();
    await answer('made');
    await waitFor(() => {
      expect(names()).toEqual(['made', 'a.txt', 'b.txt']);
    });
  });

  it('shows another directory when its path is typed', async () => {
    const { node, names } = await shown([['/other', null], ['/other/c.txt', '']]);
    const path = node.querySelector<HTMLInputElement>('.sbx-Files-path') as HTMLInputElement;
    path.value = 'other';
    path.dispatchEvent(new Event('change'));
    await waitFor(() => {
      expect(names()).toEqual(['c.txt']);
    });
    expect(path.value).toBe('/other');
  });

  it('reads again soon after a change in the sandbox', async () => {
    const { transport, names } = await shown();
    vi.useFakeTimers();
    transport.files.set('/home/new.txt', '');
    transport.change('new.txt');
    transport.change('new.txt');
    await vi.advanceTimersByTimeAsync(400);
    expect(names()).toContain('new.txt');
  });

  it('follows changes again after a pause, without waking the sandbox', async () => {
    const { transport, names } = await shown();
    vi.useFakeTimers();
    transport.currentState = 'paused';
    transport.endWatches();
    await vi.advanceTimersByTimeAsync(30_000);
    expect(transport.watches).toBe(0);
    transport.currentState = 'running';
    transport.files.set('/home/missed.txt', '');
    await vi.advanceTimersByTimeAsync(6000);
    expect(transport.watches).toBe(1);
    expect(names()).toContain('missed.txt');
    transport.files.set('/home/new.txt', '');
    transport.change('new.txt');
    await vi.advanceTimersByTimeAsync(400);
    expect(names()).toContain('new.txt');
  });

  it('does not follow again what is not shown any more, or has ended', async () => {
    const { transport, view } = await shown([['/other', null]]);
    vi.useFakeTimers();
    transport.endWatches();
    view.show('/other');
    await vi.advanceTimersByTimeAsync(20_000);
    expect(transport.watches).toBe(1);
    transport.currentState = 'ended';
    transport.endWatches();
    const asked = vi.spyOn(transport, 'state');
    await vi.advanceTimersByTimeAsync(20_000);
    expect([transport.watches, asked.mock.calls.length]).toEqual([0, 1]);
    transport.currentState = 'running';
    view.show('/home');
    transport.endWatches();
    view.dispose();
    await vi.advanceTimersByTimeAsync(20_000);
    expect(transport.watches).toBe(0);
  });

  it('reads again when asked to', async () => {
    const { transport, node, names } = await shown();
    transport.files.set('/home/new.txt', '');
    button(node, 'Refresh').click();
    await waitFor(() => {
      expect(names()).toContain('new.txt');
    });
  });

  it('uploads what was picked', async () => {
    const { node, names, transport } = await shown();
    choose(node, new File(['up'], 'up.txt'));
    await waitFor(() => {
      expect(names()).toContain('up.txt');
    });
    expect(transport.files.get('/home/up.txt')).toBe('up');
  });

  it('uploads what was dropped on it', async () => {
    const { node, names } = await shown();
    node.dispatchEvent(new Event('dragover', { cancelable: true }));
    expect(node.classList.contains('sbx-mod-drop')).toBe(true);
    node.dispatchEvent(Object.assign(new Event('drop'), { dataTransfer: { files: [new File(['up'], 'up.txt')] } }));
    expect(node.classList.contains('sbx-mod-drop')).toBe(false);
    await waitFor(() => {
      expect(names()).toContain('up.txt');
    });
  });

  it('asks before an upload replaces a file', async () => {
    const { node, transport, answer } = await shown();
    choose(node, new File(['new'], 'a.txt'));
    await waitFor(() => {
      expect(node.textContent).toContain('Replace a.txt?');
    });
    expect(transport.files.get('/home/a.txt')).toBe('one');
    await answer();
    await waitFor(() => {
      expect(transport.files.get('/home/a.txt')).toBe('new');
    });
  });

  it('says why something failed, and nothing once it works again', async () => {
    const { transport, view, message, node, answer } = await shown();
    transport.makeDir = () => Promise.reject(new SandboxError('resource_exhausted', 'The disk is full.'));
    button(node, 'New folder').click();
    await answer('made');
    await waitFor(() => {
      expect(message()?.textContent).toBe('The disk is full.');
    });
    view.refresh();
    await waitFor(() => {
      expect(message()?.hidden).toBe(true);
    });
  });

  it('does not report an upload that the user stopped', async () => {
    const { transport, node, message, names } = await shown();
    transport.upload = () => {
      transport.files.set('/home/part', '');
      return Promise.reject(new DOMException('stopped', 'AbortError'));
    };
    choose(node, new File(['up'], 'up.txt'));
    await waitFor(() => {
      expect(names()).toContain('part');
    });
    expect(message()?.hidden).toBe(true);
  });

  it('stops watching when it is disposed', async () => {
    const { transport, view, node } = await shown();
    expect(transport.watches).toBe(1);
    view.dispose();
    expect(transport.watches).toBe(0);
    expect(node.childElementCount).toBe(0);
  });
});

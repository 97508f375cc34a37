import { beforeEach, describe, expect, it, vi } from 'vitest';

import { FileTree } from '../../../src/components/files/fileTree';
import { FakeTransport } from '../../fakeTransport';
import { button, press } from '../../userEvents';
import { waitFor } from '../../waiting';

const HOSTILE = '<img src=x onerror=alert(1)>';

function tree(maxRows?: number) {
  const transport = new FakeTransport(
    new Map<string, string | null>([
      ['/home', null],
      ['/home/b.txt', 'bb'],
      ['/home/docs', null],
      ['/home/docs/inner.txt', 'x'],
      ['/home/empty', null],
      [`/home/${HOSTILE}`, '']
    ])
  );
  const node = document.createElement('div');
  document.body.append(node);
  const asked: string[] = [];
  const view = new FileTree(node, transport, {
    open: entry => asked.push(`open ${entry.path}`),
    download: entry => asked.push(`download ${entry.path}`),
    rename: entry => asked.push(`rename ${entry.path}`),
    remove: entry => asked.push(`remove ${entry.path}`)
  }, maxRows);
  const item = (name: string) => {
    const found = [...node.querySelectorAll<HTMLElement>('[role=treeitem]')].find(
      candidate => candidate.getAttribute('aria-label') === name
    );
    if (!found) {
      throw new Error(`${name} is not shown`);
    }
    return found;
  };
  return { node, view, transport, asked, item };
}

describe('the file tree', () => {
  beforeEach(() => {
    document.body.replaceChildren();
  });

  it('lists directories first', async () => {
    const { node, view } = tree();
    await view.refresh('/home');
    const names = [...node.querySelectorAll('.sbx-FileTree-name')].map(name => name.textContent);
    expect(names.slice(0, 2)).toEqual(['docs', 'empty']);
    expect(names).toContain('b.txt');
  });

  it('shows a hostile name as text', async () => {
    const { node, view } = tree();
    await view.refresh('/home');
    expect(node.querySelector('img')).toBeNull();
    expect(node.textContent).toContain(HOSTILE);
  });

  it('opens and closes a directory with the arrow keys and says so to screen readers', async () => {
    const { view, item, node } = tree();
    await view.refresh('/home');
    press(item('docs'), 'ArrowRight');
    await waitFor(() => item('inner.txt'));
    expect(item('docs').getAttribute('aria-expanded')).toBe('true');
    expect(item('inner.txt').getAttribute('aria-level')).toBe('2');

    press(item('docs'), 'ArrowLeft');
    expect(item('docs').getAttribute('aria-expanded')).toBe('false');
    expect(node.textContent).not.toContain('inner.txt');
  });

  it('keeps open directories open when it reads again', async () => {
    const { view, item } = tree();
    await view.refresh('/home');
    press(item('docs'), 'Enter');
    await waitFor(() => item('inner.txt'));
    await view.refresh('/home');
    expect(item('inner.txt')).toBeTruthy();
  });

  it('shows the directory that was asked for last, whichever answer comes first', async () => {
    const { view, transport, node } = tree();
    const list = transport.list.bind(transport);
    let answer: () => void = () => undefined;
    vi.spyOn(transport, 'list').mockImplementationOnce(async path => {
      await new Promise<void>(resolve => { answer = resolve; });
      return list(path);
    });
    const slow = view.refresh('/home');
    await view.refresh('/home/docs');
    answer();
    await slow;
    expect(node.textContent).toContain('inner.txt');
    expect(node.textContent).not.toContain('b.txt');
  });

  it('leaves a directory closed that was closed before its answer came', async () => {
    const { view, transport, item, node } = tree();
    await view.refresh('/home');
    const list = transport.list.bind(transport);
    let answer: () => void = () => undefined;
    vi.spyOn(transport, 'list').mockImplementationOnce(async path => {
      await new Promise<void>(resolve => { answer = resolve; });
      return list(path);
    });
    press(item('docs'), 'ArrowRight');
    press(item('docs'), 'ArrowLeft');
    answer();
    await new Promise(resolve => setTimeout(resolve, 0));
    expect(node.textContent).not.toContain('inner.txt');
  });

  it('opens a file with Enter', async () => {
    const { view, item, asked } = tree();
    await view.refresh('/home');
    press(item('b.txt'), 'Enter');
    expect(asked).toEqual(['open /home/b.txt']);
  });

  it('says when a directory is empty or cannot be read', async () => {
    const { view, node } = tree();
    await view.refresh('/home/empty');
    expect(node.textContent).toBe('Empty');
    await view.refresh('/nowhere');
    expect(node.textContent).toBe('/nowhere does not exist');
  });

  it('moves the focus with the keys, in and out of a directory', async () => {
    const { view, item } = tree();
    await view.refresh('/home');
    const focused = () => document.activeElement?.getAttribute('aria-label');
    press(item('docs'), 'Enter');
    await waitFor(() => item('inner.txt'));
    item('docs').focus();

    const seen = ['ArrowDown', 'ArrowLeft', 'End', 'ArrowUp', 'Home', 'ArrowUp'].map(key => {
      press(document.activeElement, key);
      return focused();
    });

    expect(seen).toEqual(['inner.txt', 'docs', 'b.txt', HOSTILE, 'docs', 'docs']);
    expect(item('docs').tabIndex).toBe(0);
    expect(item('b.txt').tabIndex).toBe(-1);
  });

  it('asks for a rename with F2, for a removal with Delete, and leaves other keys to the page', async () => {
    const { view, item, asked } = tree();
    await view.refresh('/home');
    press(item('b.txt'), 'F2');
    press(item('b.txt'), 'Delete');
    press(item('b.txt'), 'x');
    expect(asked).toEqual(['rename /home/b.txt', 'remove /home/b.txt']);
  });

  it('has a button for each action, and none that downloads a directory', async () => {
    const { view, node, asked } = tree();
    await view.refresh('/home');
    ['Download b.txt', 'Rename b.txt', 'Delete b.txt', 'Delete docs'].forEach(name => {
      button(node, name).click();
    });
    expect(asked).toEqual(['download /home/b.txt', 'rename /home/b.txt', 'remove /home/b.txt', 'remove /home/docs']);
    expect(() => button(node, 'Download docs')).toThrow('0 buttons');
  });

  it('opens a file and a directory with a click', async () => {
    const { view, node, item, asked } = tree();
    await view.refresh('/home');
    const row = (name: string) => item(name).querySelector<HTMLElement>('.sbx-FileTree-row');
    row('b.txt')?.click();
    row('docs')?.click();
    await waitFor(() => item('inner.txt'));
    row('docs')?.click();
    await waitFor(() => {
      expect(node.textContent).not.toContain('inner.txt');
    });
    expect(asked).toEqual(['open /home/b.txt']);
  });

  it('keeps the focus on the file that had it when it reads again', async () => {
    const { view, item } = tree();
    await view.refresh('/home');
    const before = item('b.txt');
    before.focus();
    await view.refresh('/home');
    expect(document.activeElement).toBe(item('b.txt'));
    expect(view.rowOf(before)).toBe(item('b.txt'));
  });

  it('keeps a focus that comes to a file while it reads', async () => {
    const { view, item } = tree();
    await view.refresh('/home');
    const reading = view.refresh('/home');
    item('b.txt').focus();
    await reading;
    expect(document.activeElement).toBe(item('b.txt'));
  });

  it('moves the focus to the first file when the one that had it is gone', async () => {
    const { view, item, transport } = tree();
    await view.refresh('/home');
    item('b.txt').focus();
    await transport.remove('/home/b.txt');
    await view.refresh('/home');
    expect(document.activeElement).toBe(item('docs'));
  });

  it('cuts a very large directory and says how much is not shown', async () => {
    const { view, node } = tree(3);
    await view.refresh('/home');
    expect(node.querySelectorAll('[role=treeitem]')).toHaveLength(3);
    expect(node.textContent).toContain('1 more');

    node.querySelector<HTMLElement>('.sbx-FileTree-note button')?.click();
    await waitFor(() => {
      expect(node.querySelectorAll('[role=treeitem]')).toHaveLength(4);
    });
    expect(node.textContent).not.toContain('more');
  });

  it('shows a link with another icon than a file', async () => {
    const { view, transport, item } = tree();
    const shape = (name: string) => item(name).querySelector('.sbx-FileTree-row > .sbx-icon path')?.getAttribute('d');
    const list = transport.list.bind(transport);
    transport.list = async path => (await list(path)).map(entry => (entry.name === 'b.txt' ? { ...entry, symlinkTarget: '/x' } : entry));
    await view.refresh('/home');
    expect(shape('b.txt')).not.toBe(shape(HOSTILE));
  });

  it('leaves nothing behind when it is disposed', async () => {
    const { view, node } = tree();
    await view.refresh('/home');
    view.dispose();
    expect(node.childElementCount).toBe(0);
  });
});

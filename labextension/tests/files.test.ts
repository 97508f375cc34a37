import { beforeEach, describe, expect, it } from 'vitest';

import { FileTree } from '../src/components/fileTree';
import { FakeTransport } from './fakeTransport';

const HOSTILE = '<img src=x onerror=alert(1)>';
const settled = () => new Promise(resolve => setTimeout(resolve, 5));

function tree() {
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
  const opened: string[] = [];
  const ignore = () => undefined;
  const view = new FileTree(node, transport, {
    open: entry => opened.push(entry.path),
    download: ignore,
    rename: ignore,
    remove: ignore
  });
  const item = (name: string) => {
    const found = [...node.querySelectorAll<HTMLElement>('[role=treeitem]')].find(
      candidate => candidate.getAttribute('aria-label') === name
    );
    if (!found) {
      throw new Error(`${name} is not shown`);
    }
    return found;
  };
  const press = (target: HTMLElement, key: string) =>
    target.dispatchEvent(new KeyboardEvent('keydown', { key, bubbles: true }));
  return { node, view, transport, opened, item, press };
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
    const { view, item, press, node } = tree();
    await view.refresh('/home');
    press(item('docs'), 'ArrowRight');
    await settled();
    expect(item('docs').getAttribute('aria-expanded')).toBe('true');
    expect(item('inner.txt').getAttribute('aria-level')).toBe('2');

    press(item('docs'), 'ArrowLeft');
    expect(item('docs').getAttribute('aria-expanded')).toBe('false');
    expect(node.textContent).not.toContain('inner.txt');
  });

  it('keeps open directories open when it reads again', async () => {
    const { view, item, press } = tree();
    await view.refresh('/home');
    press(item('docs'), 'Enter');
    await settled();
    await view.refresh('/home');
    expect(item('inner.txt')).toBeTruthy();
  });

  it('opens a file with Enter', async () => {
    const { view, item, press, opened } = tree();
    await view.refresh('/home');
    press(item('b.txt'), 'Enter');
    expect(opened).toEqual(['/home/b.txt']);
  });

  it('says when a directory is empty or cannot be read', async () => {
    const { view, node } = tree();
    await view.refresh('/home/empty');
    expect(node.textContent).toBe('Empty');
    await view.refresh('/nowhere');
    expect(node.textContent).toBe('/nowhere does not exist');
  });
});

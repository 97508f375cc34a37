import { beforeEach, describe, expect, it } from 'vitest';

import { FileEditor } from '../../../src/components/files/fileEditor';
import { SandboxError } from '../../../src/protocol/errors';
import { button, enter, press } from '../../userEvents';
import { waitFor } from '../../waiting';

function editor(save: (text: string) => Promise<void> = () => Promise.resolve()) {
  const node = document.createElement('div');
  document.body.append(node);
  let closed = 0;
  const view = new FileEditor(node, '/home/a.txt', 'one', { save, close: () => (closed += 1) });
  const text = node.querySelector('textarea') as HTMLTextAreaElement;
  const state = () => node.querySelector('[role=status]')?.textContent;
  return { node, view, text, state, closed: () => closed };
}

describe('the editor of one file', () => {
  beforeEach(() => {
    document.body.replaceChildren();
  });

  it('has nothing to save at first', () => {
    const { node, text, state } = editor();
    expect(text.value).toBe('one');
    expect(button(node, 'Save').disabled).toBe(true);
    expect(state()).toBe('');
  });

  it('says that a change is not saved, until it is taken back', () => {
    const { node, text, state } = editor();
    enter(text, 'two');
    expect(state()).toBe('Not saved');
    expect(button(node, 'Save').disabled).toBe(false);

    enter(text, 'one');
    expect(state()).toBe('');
  });

  it('saves with Ctrl+S and keeps its keys from the page', async () => {
    const saved: string[] = [];
    const { text, state } = editor(async content => {
      saved.push(content);
      return Promise.resolve();
    });
    let heard = 0;
    document.body.addEventListener('keydown', () => (heard += 1));
    enter(text, 'two');
    press(text, 's', { ctrlKey: true });
    expect(state()).toBe('Saving…');

    await waitFor(() => {
      expect(state()).toBe('');
    });
    expect(saved).toEqual(['two']);
    expect(heard).toBe(0);
  });

  it('says why a file was not saved and lets the user try again', async () => {
    const { node, text, state } = editor(() => Promise.reject(new SandboxError('permission_denied', 'The file is read-only.')));
    enter(text, 'two');
    button(node, 'Save').click();
    await waitFor(() => {
      expect(state()).toBe('The file is read-only.');
    });
    expect(button(node, 'Save').disabled).toBe(false);
  });

  it('saves in order: what is saved during a save comes after it', async () => {
    const saved: string[] = [];
    const ends: (() => void)[] = [];
    const { text, state } = editor(content => {
      saved.push(content);
      return new Promise(resolve => { ends.push(resolve); });
    });
    enter(text, 'two');
    press(text, 's', { ctrlKey: true });
    enter(text, 'three');
    press(text, 's', { ctrlKey: true });
    press(text, 's', { ctrlKey: true });
    expect(saved).toEqual(['two']);
    expect(state()).toBe('Saving…');

    ends[0]?.();
    await waitFor(() => { expect(saved).toEqual(['two', 'three']); });
    ends[1]?.();
    await waitFor(() => { expect(state()).toBe(''); });
    expect(saved).toHaveLength(2);
  });

  it('leaves the focus in the text when the button that saves is disabled', () => {
    const { node, text } = editor(() => new Promise(() => undefined));
    enter(text, 'two');
    button(node, 'Save').focus();
    button(node, 'Save').click();
    expect(document.activeElement).toBe(text);
  });

  it('closes at once when nothing is unsaved', async () => {
    const { node, closed } = editor();
    button(node, 'Close a.txt').click();
    await waitFor(() => {
      expect(closed()).toBe(1);
    });
  });

  it('asks before changes are discarded', async () => {
    const { node, text, closed } = editor();
    enter(text, 'two');
    button(node, 'Close a.txt').click();
    button(node, 'Cancel').click();
    button(node, 'Close a.txt').click();
    expect(closed()).toBe(0);

    button(node, 'Discard them').closest('form')?.requestSubmit();
    await waitFor(() => {
      expect(closed()).toBe(1);
    });
  });

  it('takes the focus and goes', () => {
    const { view, text, node } = editor();
    view.focus();
    expect(document.activeElement).toBe(text);
    view.dispose();
    expect(node.isConnected).toBe(false);
  });
});

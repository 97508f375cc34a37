import { beforeEach, describe, expect, it } from 'vitest';

import { InlineDialog } from '../../src/components/inlineDialog';
import { button, enter, press } from '../userEvents';

describe('an inline dialog', () => {
  beforeEach(() => {
    document.body.replaceChildren();
  });

  function bar(): InlineDialog {
    const asked = new InlineDialog(document.createElement('div'));
    document.body.append(asked.node);
    return asked;
  }

  it('starts at the harmless button when yes cannot be undone', async () => {
    const question = bar();
    const answer = question.ask({ text: 'Delete it?', yes: 'Delete', isDanger: true });
    expect(document.activeElement?.textContent).toBe('Cancel');

    press(document.activeElement, 'Escape');
    expect(await answer).toBeNull();
    expect(question.node.hidden).toBe(true);
  });

  it('gives the text back without its margins', async () => {
    const question = bar();
    const answer = question.ask({ text: 'Name', yes: 'Create', value: ' made ' });
    question.node.querySelector('form')?.requestSubmit();
    expect(await answer).toBe('made');
  });

  it('takes back the question before it', async () => {
    const question = bar();
    const first = question.ask({ text: 'One?', yes: 'Yes' });
    void question.ask({ text: 'Two?', yes: 'Yes' });
    expect(await first).toBeNull();
    expect(question.node.textContent).toContain('Two?');
  });

  it('starts at the button that agrees when nothing is lost by it', async () => {
    const question = bar();
    const answer = question.ask({ text: 'Go on?', yes: 'Go on' });
    expect(document.activeElement?.textContent).toBe('Go on');

    question.node.querySelector('form')?.requestSubmit();
    expect(await answer).toBe('');
  });

  it('starts in the field when it asks for text', async () => {
    const question = bar();
    const answer = question.ask({ text: 'Name', yes: 'Create', value: 'old' });
    const field = document.activeElement as HTMLInputElement;
    expect(field.value).toBe('old');

    enter(field, 'new');
    button(question.node, 'Cancel').click();
    expect(await answer).toBeNull();
  });

  it('gives the focus back to what had it', () => {
    const before = document.createElement('button');
    document.body.append(before);
    before.focus();
    const question = bar();
    void question.ask({ text: 'One?', yes: 'Yes' });

    button(question.node, 'Cancel').click();

    expect(document.activeElement).toBe(before);
  });

  it('keeps its keys from the shortcuts of the page', () => {
    const question = bar();
    void question.ask({ text: 'Name', yes: 'Create', value: '' });
    let heard = 0;
    document.body.addEventListener('keydown', () => (heard += 1));

    press(document.activeElement, 'b');

    expect(heard).toBe(0);
  });

  it('counts as cancelled when its view goes', async () => {
    const question = bar();
    const answer = question.ask({ text: 'One?', yes: 'Yes' });
    question.dispose();
    expect(await answer).toBeNull();
  });
});

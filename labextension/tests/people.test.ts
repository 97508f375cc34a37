import { afterEach, beforeEach, describe, expect, it } from 'vitest';

import { FilesView } from '../src/components/filesView';
import { speak, trans } from '../src/components/language';
import { QuestionBar } from '../src/components/question';
import { troubleOf } from '../src/lab/trouble';
import { SandboxError } from '../src/protocol/errors';
import type { IServerInfo, ISandbox } from '../src/protocol/sandboxes';
import { displayName, templateLabel } from '../src/protocol/sandboxes';
import { FakeTransport } from './fakeTransport';

const settled = () => new Promise(resolve => setTimeout(resolve, 20));

function press(target: Element, key: string): void {
  target.dispatchEvent(new KeyboardEvent('keydown', { key, bubbles: true, cancelable: true }));
}

describe('a question inside a view', () => {
  beforeEach(() => {
    document.body.replaceChildren();
  });

  function bar(): QuestionBar {
    const asked = new QuestionBar(document.createElement('div'));
    document.body.append(asked.node);
    return asked;
  }

  it('starts at the harmless button when yes cannot be undone', async () => {
    const question = bar();
    const answer = question.ask({ text: 'Delete it?', yes: 'Delete', isDanger: true });
    expect(document.activeElement?.textContent).toBe('Cancel');

    press(document.activeElement as Element, 'Escape');
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
});

describe('the file browser of the widgets', () => {
  it('gives the focus back to a row that was drawn again while it asked', async () => {
    const transport = new FakeTransport(
      new Map<string, string | null>([
        ['/home', null],
        ['/home/a.txt', ''],
        ['/home/b.txt', '']
      ])
    );
    const node = document.createElement('div');
    document.body.replaceChildren(node);
    const view = new FilesView(node, transport, '/home');
    await settled();
    const row = [...node.querySelectorAll<HTMLElement>('[role=treeitem]')][1];
    row?.focus();
    press(row as Element, 'Delete');
    view.refresh();
    await settled();
    press(document.activeElement as Element, 'Escape');

    expect(document.activeElement).not.toBe(row);
    expect(document.activeElement?.getAttribute('aria-label')).toBe('b.txt');
    expect(transport.files.has('/home/b.txt')).toBe(true);
    view.dispose();
  });
});

describe('what is told of a failure', () => {
  const remote = { url_kind: 'configured', host: 'api.example.com' } as unknown as IServerInfo;

  it('names the deployment and the setting when the key is refused', () => {
    const trouble = troubleOf(new SandboxError('unauthenticated', 'invalid key'), remote);
    expect(trouble.title).toBe('api.example.com refuses the API key');
    expect(trouble.advice).toContain('c.SbxExtension.api_key');
  });

  it('tells a deployment that is down from an engine that is not there', () => {
    const down = new SandboxError('unavailable', 'no answer');
    expect(troubleOf(down, remote).title).toBe('api.example.com cannot be reached');
    expect(troubleOf(down, null).command).toBe('jupyter sbx doctor');
  });

  it('tells a Jupyter server that is away from both', () => {
    expect(troubleOf(new TypeError('Failed to fetch'), remote).title).toBe('The Jupyter server does not answer');
  });
});

describe('names and messages', () => {
  afterEach(() => {
    speak({ __: (text, ...values) => text.replace(/%(\d)/g, (_, number) => String(values[Number(number) - 1])) });
  });

  it('shows what would turn a name around', () => {
    const sandbox = { sandboxID: 'i1', metadata: { name: '\u202egnp.exe' } } as unknown as ISandbox;
    expect(displayName(sandbox)).toBe('\ufffdgnp.exe');
  });

  it('leaves out what every template of this machine is called', () => {
    const template = { templateID: 't', names: ['local/kept:default'], kind: 'snapshot' as const };
    expect(templateLabel(template)).toBe('kept');
    expect(templateLabel({ ...template, names: ['team/kept:v2'] })).toBe('team/kept:v2');
  });

  it('speaks the language of the page from then on', () => {
    expect(trans.__('%1 of %2', 1, 2)).toBe('1 of 2');
    speak({ __: (text, ...values) => `<${text}|${values.join()}>` });
    expect(trans.__('%1 of %2', 1, 2)).toBe('<%1 of %2|1,2>');
  });
});

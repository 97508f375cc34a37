import { Dialog, InputDialog, showDialog } from '@jupyterlab/apputils';
import { Widget } from '@lumino/widgets';

import { element } from '../components/dom';
import { formatDuration } from '../components/format';
import type { INewSandbox, ISandbox, IServerInfo } from '../protocol/sandboxes';
import { displayName } from '../protocol/sandboxes';
import { enforcedLines, tierText, unenforcedLines } from './isolation';
import type { ISandboxSettings } from './settings';

/** The lengths of life that are offered, in seconds. */
export const TIMEOUTS = [300, 900, 3600, 4 * 3600, 12 * 3600, 24 * 3600] as const;

/** Asks for a name, a template and a timeout; `null` when the user changed their mind. */
export async function askForSandbox(settings: ISandboxSettings): Promise<INewSandbox | null> {
  const form = new CreateForm(settings);
  const result = await showDialog({
    title: 'New sandbox',
    body: form,
    buttons: [Dialog.cancelButton(), Dialog.okButton({ label: 'Create' })],
    focusNodeSelector: 'input'
  });
  return result.button.accept ? (result.value ?? null) : null;
}

class CreateForm extends Widget implements Dialog.IBodyWidget<INewSandbox> {
  constructor(settings: ISandboxSettings) {
    super();
    this.addClass('sbx-Form');
    this.nameInput = element('input', 'jp-mod-styled', { placeholder: 'Optional', maxlength: '100' });
    this.template = element('input', 'jp-mod-styled', { value: settings.defaultTemplate, spellcheck: 'false' });
    this.timeout = element('select', 'jp-mod-styled');
    const choices = [...new Set([...TIMEOUTS, settings.defaultTimeout])].sort((one, other) => one - other);
    for (const seconds of choices) {
      const option = element('option', '', { value: String(seconds) }, formatDuration(seconds));
      option.selected = seconds === settings.defaultTimeout;
      this.timeout.append(option);
    }
    this.node.append(
      field('Name', this.nameInput),
      field('Template', this.template, 'A template’s name or id.'),
      field('Lives for', this.timeout, 'The time can be extended later.')
    );
  }

  getValue(): INewSandbox {
    const name = this.nameInput.value.trim();
    const template = this.template.value.trim();
    return {
      ...(name === '' ? {} : { name }),
      ...(template === '' ? {} : { template }),
      timeout: Number(this.timeout.value)
    };
  }

  private readonly nameInput: HTMLInputElement;
  private readonly template: HTMLInputElement;
  private readonly timeout: HTMLSelectElement;
}

function field(label: string, control: HTMLElement, hint = ''): HTMLElement {
  const caption = element('span', 'sbx-Form-label', {}, label);
  const row = element('label', 'sbx-Form-field', {}, caption, control);
  if (hint !== '') {
    row.append(element('span', 'sbx-Form-hint', {}, hint));
  }
  return row;
}

/** Asks before a sandbox is killed, since nothing brings it back. */
export async function confirmKill(sandbox: ISandbox): Promise<boolean> {
  const body = new Widget({ node: element('div', 'sbx-Confirm') });
  body.node.append(
    element('p', 'sbx-Confirm-name', {}, displayName(sandbox)),
    element('p', '', {}, 'Its processes end and its files are deleted. This cannot be undone.')
  );
  const result = await showDialog({
    title: 'Kill this sandbox?',
    body,
    buttons: [Dialog.cancelButton(), Dialog.warnButton({ label: 'Kill sandbox' })],
    defaultButton: 0
  });
  return result.button.accept;
}

/** Lets the user pick one of several sandboxes; `null` when they changed their mind. */
export async function pickSandbox(sandboxes: readonly ISandbox[]): Promise<ISandbox | null> {
  const labels = sandboxes.map(sandbox =>
    displayName(sandbox) === sandbox.sandboxID ? sandbox.sandboxID : `${displayName(sandbox)} (${sandbox.sandboxID})`
  );
  const result = await InputDialog.getItem({ title: 'Which sandbox?', items: labels, okLabel: 'Choose' });
  const at = result.value === null ? -1 : labels.indexOf(result.value);
  return result.button.accept ? (sandboxes[at] ?? null) : null;
}

/** Asks how long a sandbox shall live from now on, in seconds. */
export async function askForTimeout(): Promise<number | null> {
  const labels = TIMEOUTS.map(formatDuration);
  const result = await InputDialog.getItem({
    title: 'Keep the sandbox for',
    items: labels,
    current: 2,
    okLabel: 'Set'
  });
  const at = result.value === null ? -1 : labels.indexOf(result.value);
  return result.button.accept ? (TIMEOUTS[at] ?? null) : null;
}

/** Says what keeps sandboxes in on this machine, what does not, and what would help. */
export async function showIsolation(info: IServerInfo | null): Promise<void> {
  const body = new Widget({ node: element('div', 'sbx-Isolation') });
  const isolation = info?.isolation ?? null;
  if (isolation === null) {
    const text = info?.engine.message ?? 'The server does not say how it isolates sandboxes.';
    body.node.append(element('p', '', {}, text));
  } else {
    body.node.append(element('p', '', {}, tierText(isolation.tier).meaning));
    section(body.node, 'Enforced', enforcedLines(isolation));
    section(body.node, 'Not enforced', unenforcedLines(isolation));
    for (const { what, remedy } of isolation.missing ?? []) {
      body.node.append(
        element('h3', '', {}, 'Missing'),
        element('p', '', {}, what),
        element('code', 'sbx-Isolation-remedy', {}, remedy)
      );
    }
  }
  await showDialog({ title: 'Isolation', body, buttons: [Dialog.okButton({ label: 'Close' })] });
}

function section(node: HTMLElement, title: string, lines: readonly string[]): void {
  if (lines.length > 0) {
    const items = lines.map(line => element('li', '', {}, line));
    node.append(element('h3', '', {}, title), element('ul', '', {}, ...items));
  }
}

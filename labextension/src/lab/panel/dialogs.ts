import { Dialog, InputDialog, showDialog } from '@jupyterlab/apputils';
import { Widget } from '@lumino/widgets';

import { element } from '../../components/dom';
import { formatDuration } from '../../components/format';
import { trans } from '../../components/translation';
import type { INewSandbox, ISandbox, IServerInfo, ITemplate } from '../../protocol/sandboxes';
import { displayName, templateLabel } from '../../protocol/sandboxes';
import { isolationDetails } from './isolationDetails';
import type { Sandboxes } from '../sandboxes';
import type { ISandboxSettings } from '../settings';

/** The timeouts to choose from, in seconds. */
export const TIMEOUTS = [300, 900, 3600, 4 * 3600, 12 * 3600, 24 * 3600] as const;

/** Asks for a name, a template and a timeout; `null` when the user cancels. */
export async function askForSandbox(settings: ISandboxSettings, sandboxes: Sandboxes): Promise<INewSandbox | null> {
  const form = new CreateForm(settings);
  // The dialog does not wait for the suggestions: a name can be typed meanwhile.
  sandboxes.templates().then(
    templates => {
      form.suggest(templates);
    },
    () => undefined
  );
  const result = await showDialog({
    title: trans.__('New sandbox'),
    body: form,
    buttons: [Dialog.cancelButton(), Dialog.okButton({ label: trans.__('Create') })],
    focusNodeSelector: 'input'
  });
  return result.button.accept ? (result.value ?? null) : null;
}

class CreateForm extends Widget implements Dialog.IBodyWidget<INewSandbox> {
  constructor(settings: ISandboxSettings) {
    super();
    this.addClass('sbx-Form');
    this.nameInput = element('input', 'jp-mod-styled', { placeholder: trans.__('Optional'), maxlength: '100' });
    this.template = element('input', 'jp-mod-styled', {
      value: settings.defaultTemplate,
      spellcheck: 'false',
      list: 'sbx-templates'
    });
    this.suggestions = element('datalist', '', { id: 'sbx-templates' });
    this.timeout = element('select', 'jp-mod-styled');
    const choices = [...new Set([...TIMEOUTS, settings.defaultTimeout])].sort((one, other) => one - other);
    for (const seconds of choices) {
      const option = element('option', '', { value: String(seconds) }, formatDuration(seconds));
      option.selected = seconds === settings.defaultTimeout;
      this.timeout.append(option);
    }
    this.node.append(
      field(trans.__('Name'), this.nameInput),
      field(trans.__('Template'), this.template, trans.__('A template or snapshot, by its name or id.')),
      field(trans.__('Lives for'), this.timeout, trans.__('The time can be extended later.')),
      this.suggestions
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

  /** Suggests templates and snapshots. */
  suggest(templates: readonly ITemplate[]): void {
    const options = templates
      .filter(({ buildStatus }) => buildStatus !== 'building')
      .map(template => {
        const kind = template.kind === 'snapshot' ? trans.__('snapshot') : trans.__('template');
        const label = templateLabel(template);
        const value = template.kind === 'snapshot' ? template.templateID : label;
        return element('option', '', { value }, value === label ? kind : `${label}, ${kind}`);
      });
    this.suggestions.replaceChildren(...options);
  }

  private readonly suggestions: HTMLDataListElement;
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

/** Asks before a sandbox is killed, which cannot be undone. */
export async function confirmKill(sandbox: ISandbox): Promise<boolean> {
  const body = new Widget({ node: element('div', 'sbx-Confirm') });
  body.node.append(
    element('p', 'sbx-Confirm-name', {}, displayName(sandbox)),
    element('p', '', {}, trans.__('Its processes end and its files are deleted. This cannot be undone.'))
  );
  const result = await showDialog({
    title: trans.__('Kill this sandbox?'),
    body,
    buttons: [Dialog.cancelButton(), Dialog.warnButton({ label: trans.__('Kill sandbox') })],
    defaultButton: 0
  });
  return result.button.accept;
}

/** Lets the user pick one of several sandboxes; `null` when they cancel. */
export async function pickSandbox(sandboxes: readonly ISandbox[]): Promise<ISandbox | null> {
  const labels = sandboxes.map(sandbox =>
    displayName(sandbox) === sandbox.sandboxID ? sandbox.sandboxID : `${displayName(sandbox)} (${sandbox.sandboxID})`
  );
  const result = await InputDialog.getItem({ title: trans.__('Which sandbox?'), items: labels, okLabel: trans.__('Choose') });
  const at = result.value === null ? -1 : labels.indexOf(result.value);
  return result.button.accept ? (sandboxes[at] ?? null) : null;
}

/** Asks for a new timeout, in seconds from now; `null` when the user cancels. */
export async function askForTimeout(): Promise<number | null> {
  const labels = TIMEOUTS.map(formatDuration);
  const result = await InputDialog.getItem({
    title: trans.__('Keep the sandbox for'),
    items: labels,
    current: 2,
    okLabel: trans.__('Set')
  });
  const at = result.value === null ? -1 : labels.indexOf(result.value);
  return result.button.accept ? (TIMEOUTS[at] ?? null) : null;
}

/** Asks before a snapshot or template is deleted. */
export async function confirmRemoval(name: string): Promise<boolean> {
  const body = new Widget({ node: element('div', 'sbx-Confirm') });
  body.node.append(
    element('p', 'sbx-Confirm-name', {}, name),
    element('p', '', {}, trans.__('No sandbox can be created from it any more. This cannot be undone.'))
  );
  const result = await showDialog({
    title: trans.__('Delete it?'),
    body,
    buttons: [Dialog.cancelButton(), Dialog.warnButton({ label: trans.__('Delete') })],
    defaultButton: 0
  });
  return result.button.accept;
}

/** Asks before a terminal is ended in which a program runs; `running` is `null` if it is unknown. */
export async function confirmEnd(name: string, running: string | null): Promise<boolean> {
  const what =
    running === null
      ? trans.__('Whatever runs in it ends, too.')
      : trans.__('“%1” runs in it and ends, too.', running);
  const body = new Widget({ node: element('div', 'sbx-Confirm') });
  body.node.append(element('p', 'sbx-Confirm-name', {}, name), element('p', '', {}, what));
  const result = await showDialog({
    title: trans.__('End this terminal?'),
    body,
    buttons: [Dialog.cancelButton(), Dialog.warnButton({ label: trans.__('End terminal') })],
    defaultButton: 0
  });
  return result.button.accept;
}

/** Shows how sandboxes are isolated on this machine. */
export async function showIsolation(info: IServerInfo | null): Promise<void> {
  const body = new Widget({ node: isolationDetails(info) });
  await showDialog({
    title: trans.__('Isolation'),
    body,
    buttons: [Dialog.okButton({ label: trans.__('Close') })]
  });
}

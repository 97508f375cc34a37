import type { Dialog } from '@jupyterlab/apputils';
import { Widget } from '@lumino/widgets';

import { element } from '../../components/dom';
import { parseEnvironment } from '../../components/environment';
import { formatBytes, formatDuration } from '../../components/format';
import { formField, formHint } from '../../components/formField';
import { trans } from '../../components/translation';
import type { INewSandbox } from '../../protocol/sandboxes';
import { shortTemplate, templateLabel } from '../../protocol/sandboxes';
import type { IStoredTemplate, IVolume } from '../../protocol/storage';
import type { ISandboxSettings } from '../settings';
import type { LastChoices } from './lastChoices';
import { TIMEOUTS } from './timeouts';

/** Asks for what a new sandbox is: what it starts from, how long it lives, and what it gets. */
export class NewSandboxForm extends Widget implements Dialog.IBodyWidget<INewSandbox> {
  constructor(settings: ISandboxSettings, last: LastChoices) {
    super();
    this.addClass('sbx-Form');
    this.chosen = last.template ?? settings.defaultTemplate;
    this.fillTemplates([]);
    const timeout = last.timeout ?? settings.defaultTimeout;
    const choices = [...new Set([...TIMEOUTS, settings.defaultTimeout, timeout])].sort((one, other) => one - other);
    this.timeout.append(...choices.map(seconds => option(String(seconds), formatDuration(seconds), seconds === timeout)));
    this.timeout.value = String(timeout);
    const atEnd = last.onTimeout ?? 'kill';
    this.atEnd.append(
      option('kill', trans.__('It ends and its files are deleted'), atEnd === 'kill'),
      option('pause', trans.__('It is paused and can be resumed'), atEnd === 'pause')
    );
    this.atEnd.value = atEnd;
    this.internet.checked = last.internet ?? true;
    this.template.addEventListener('change', () => {
      this.chosen = this.template.value;
      this.describeSize();
    });
    this.environment.addEventListener('input', () => {
      this.readEnvironment();
      // The dialog looked for invalid fields before this listener was called; it looks again at this event.
      this.node.dispatchEvent(new Event('input', { bubbles: true }));
    });
    this.node.append(
      formField(trans.__('Name'), this.nameInput),
      formField(trans.__('Template'), this.template, this.size),
      formField(trans.__('Lives for'), this.timeout, formHint(trans.__('The time can be extended later.'))),
      formField(trans.__('Then'), this.atEnd),
      this.more()
    );
  }

  getValue(): INewSandbox {
    const name = this.nameInput.value.trim();
    const envs = this.readEnvironment() ?? {};
    const volumes = this.volumes.filter(({ box }) => box.checked).map(({ name: volume, path }) => ({ name: volume, path: path.value.trim() }));
    return {
      ...(name === '' ? {} : { name }),
      template: this.template.value,
      timeout: Number(this.timeout.value),
      onTimeout: this.atEnd.value === 'pause' ? 'pause' : 'kill',
      // Without it the deployment decides.
      ...(this.internet.checked ? {} : { internet: false }),
      ...(Object.keys(envs).length === 0 ? {} : { envs }),
      ...(volumes.length === 0 ? {} : { volumes })
    };
  }

  /** Offers the templates and snapshots that can be used. */
  suggest(templates: readonly IStoredTemplate[]): void {
    this.fillTemplates(templates.filter(({ buildStatus }) => !['building', 'waiting', 'error'].includes(buildStatus ?? '')));
  }

  /** Offers volumes to mount. */
  offerVolumes(volumes: readonly IVolume[]): void {
    this.volumes = volumes.map(({ name }) => ({
      name,
      box: element('input', '', { type: 'checkbox' }),
      path: element('input', 'sbx-Input', { value: `/mnt/${name}`, spellcheck: 'false', 'aria-label': trans.__('Path of %1', name) })
    }));
    const rows = this.volumes.map(({ name, box, path }) =>
      element('div', 'sbx-Form-volume', {}, element('label', 'sbx-Check', {}, box, name), path)
    );
    this.volumeList.replaceChildren(...(rows.length === 0 ? [formHint(trans.__('There are none. Make one in the storage of sandboxes.'))] : rows));
  }

  private fillTemplates(templates: readonly IStoredTemplate[]): void {
    this.templates = templates;
    const valueOf = (template: IStoredTemplate) => (template.kind === 'snapshot' ? template.templateID : templateLabel(template));
    const group = (label: string, kind: IStoredTemplate['kind']) => {
      const options = templates
        .filter(template => template.kind === kind)
        .map(template => option(valueOf(template), templateLabel(template), valueOf(template) === this.chosen));
      return options.length === 0 ? [] : [element('optgroup', '', { label }, ...options)];
    };
    const isListed = templates.some(template => valueOf(template) === this.chosen);
    this.template.replaceChildren(
      ...(isListed ? [] : [option(this.chosen, shortTemplate(this.chosen), true)]),
      ...group(trans.__('Templates'), 'template'),
      ...group(trans.__('Snapshots'), 'snapshot')
    );
    this.describeSize();
  }

  /** Says how large sandboxes of the chosen template are, where that is known. */
  private describeSize(): void {
    const found = this.templates.find(template => [template.templateID, templateLabel(template)].includes(this.chosen));
    const { cpuCount, memoryMB } = found ?? {};
    this.size.textContent =
      cpuCount === undefined || memoryMB === undefined
        ? ''
        : trans.__('%1 and %2 of memory', cpuCount === 1 ? trans.__('1 core') : trans.__('%1 cores', cpuCount), formatBytes(memoryMB * 2 ** 20));
  }

  private more(): HTMLElement {
    const more = element(
      'details',
      'sbx-Form-more',
      {},
      element('summary', '', {}, trans.__('Environment, network and volumes')),
      formField(trans.__('Environment'), this.environment, this.environmentHint),
      element('label', 'sbx-Check', {}, this.internet, trans.__('It may use the internet')),
      element('div', 'sbx-Form-field', { role: 'group', 'aria-label': trans.__('Volumes') }, element('span', 'sbx-Form-label', {}, trans.__('Volumes')), this.volumeList)
    );
    more.addEventListener('toggle', () => {
      // On low screens it opens below the edge of the dialog.
      this.environmentHint.scrollIntoView({ block: 'nearest' });
    });
    return more;
  }

  /** The variables; `null`, with what is wrong below the field, if a line is none: the dialog keeps open then. */
  private readEnvironment(): Record<string, string> | null {
    try {
      const found = parseEnvironment(this.environment.value);
      this.environment.setCustomValidity('');
      this.environmentHint.textContent = trans.__('A line for each, NAME=value.');
      this.environmentHint.classList.remove('sbx-mod-error');
      return found;
    } catch (reason) {
      const problem = trans.__('This line is not NAME=value: %1', (reason as Error).message);
      this.environment.setCustomValidity(problem);
      this.environmentHint.textContent = problem;
      this.environmentHint.classList.add('sbx-mod-error');
      return null;
    }
  }

  private readonly nameInput = element('input', 'jp-mod-styled', { placeholder: trans.__('Optional'), maxlength: '100' });
  private readonly template = element('select', 'jp-mod-styled');
  private readonly size = formHint('');
  private readonly timeout = element('select', 'jp-mod-styled');
  private readonly atEnd = element('select', 'jp-mod-styled');
  private readonly internet = element('input', '', { type: 'checkbox' });
  private readonly environment = element('textarea', 'jp-mod-styled sbx-Form-text', { rows: '3', spellcheck: 'false', placeholder: 'API_URL=https://example.org' });
  private readonly environmentHint = formHint(trans.__('A line for each, NAME=value.'));
  private readonly volumeList = element('div', 'sbx-Form-volumes');
  private volumes: { name: string; box: HTMLInputElement; path: HTMLInputElement }[] = [];
  private templates: readonly IStoredTemplate[] = [];
  private chosen: string;
}

function option(value: string, label: string, selected: boolean): HTMLOptionElement {
  const node = element('option', '', { value }, label);
  node.selected = selected;
  return node;
}

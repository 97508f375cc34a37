import { Dialog, showDialog } from '@jupyterlab/apputils';
import { Widget } from '@lumino/widgets';

import { element } from '../../components/dom';
import { formatDuration } from '../../components/format';
import { formField, formHint } from '../../components/formField';
import { trans } from '../../components/translation';
import type { ISandboxSize } from '../../protocol/sandboxes';

const USUAL_MB = 1024;
const LEAST_MB = 128;
const MOST_MB = 1 << 20;

/** The times to choose from, in seconds; 0 leaves the time as it is. */
const TIMES = [0, 3600, 4 * 3600, 12 * 3600, 24 * 3600] as const;

/** The known facts about the sandbox that was too small. */
export interface IFormerSize {
  readonly memoryMB: number | undefined;
  /** Whether its time was over. */
  readonly isOutOfTime: boolean;
}

/** Asks how large the next sandbox of a notebook's kernel shall be; `undefined` when the user cancels. */
export async function askForSize(former: IFormerSize): Promise<ISandboxSize | undefined> {
  const result = await showDialog({
    title: trans.__('Restart in another sandbox'),
    body: new SizeForm(former),
    buttons: [Dialog.cancelButton(), Dialog.okButton({ label: trans.__('Restart') })],
    focusNodeSelector: 'input'
  });
  return result.button.accept ? (result.value ?? undefined) : undefined;
}

class SizeForm extends Widget implements Dialog.IBodyWidget<ISandboxSize> {
  constructor(former: IFormerSize) {
    super();
    this.addClass('sbx-Form');
    const has = former.memoryMB ?? USUAL_MB;
    this.memory = element('input', 'jp-mod-styled', {
      type: 'number',
      min: String(LEAST_MB),
      max: String(MOST_MB),
      step: '2',
      value: String(former.isOutOfTime ? has : Math.min(2 * has, MOST_MB))
    });
    this.time = element('select', 'jp-mod-styled');
    for (const seconds of TIMES) {
      const label = seconds === 0 ? trans.__('As before') : formatDuration(seconds);
      const option = element('option', '', { value: String(seconds) }, label);
      option.selected = former.isOutOfTime ? seconds === TIMES[1] : seconds === 0;
      this.time.append(option);
    }
    const hints = former.memoryMB === undefined ? [] : [formHint(trans.__('The sandbox has %1 MiB.', String(former.memoryMB)))];
    this.node.append(
      formField(trans.__('Memory (MiB)'), this.memory, ...hints),
      formField(trans.__('Lives for'), this.time),
      element('label', 'sbx-Form-choice', {}, this.files, trans.__('Keep the files')),
      element('p', 'sbx-Form-hint', {}, trans.__('A sandbox that has ended has no files to keep. Variables are lost.'))
    );
  }

  getValue(): ISandboxSize {
    const memory = Math.round(Number(this.memory.value) / 2) * 2;
    const timeout = Number(this.time.value);
    return {
      memoryMB: Math.max(LEAST_MB, Math.min(MOST_MB, Number.isFinite(memory) ? memory : USUAL_MB)),
      ...(timeout === 0 ? {} : { timeout }),
      keepFiles: this.files.checked
    };
  }

  private readonly files = element('input', '', { type: 'checkbox', checked: '' });
  private readonly memory: HTMLInputElement;
  private readonly time: HTMLSelectElement;
}

import { element } from './dom';

/** A control of a form with its label above, and hints below. */
export function formField(label: string, control: HTMLElement, ...hints: readonly HTMLElement[]): HTMLElement {
  return element('label', 'sbx-Form-field', {}, element('span', 'sbx-Form-label', {}, label), control, ...hints);
}

/** A hint below a control. */
export function formHint(text: string): HTMLElement {
  return element('span', 'sbx-Form-hint', {}, text);
}

import { element } from './dom';

/** A control of a form with its label above, and a hint below if there is one. */
export function formField(label: string, control: HTMLElement, hint = ''): HTMLElement {
  const caption = element('span', 'sbx-Form-label', {}, label);
  const row = element('label', 'sbx-Form-field', {}, caption, control);
  if (hint !== '') {
    row.append(element('span', 'sbx-Form-hint', {}, hint));
  }
  return row;
}

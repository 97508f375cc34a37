import { Widget } from '@lumino/widgets';

import { element } from '../../../components/dom';
import { trans } from '../../../components/translation';
import { shieldIcon } from '../../icons';

/** A button in a notebook's toolbar that says where the output of its sandboxed kernel is drawn. */
export class DrawingButton extends Widget {
  constructor(onClick: () => void) {
    super();
    this.addClass('sbx-Drawing');
    this.button.addEventListener('click', onClick);
    this.button.append(this.icon, this.text);
    shieldIcon.element({ container: this.icon });
    this.node.append(this.button);
    this.hide();
  }

  /** Shows a state; `undefined` for a kernel that runs outside. */
  show_(draws: boolean | undefined): void {
    this.setHidden(draws === undefined);
    this.toggleClass('sbx-mod-inPage', draws === true);
    this.button.setAttribute('aria-pressed', String(draws === true));
    this.text.textContent = draws === true ? trans.__('Draws in the page') : trans.__('Draws in frames');
    this.button.title =
      draws === true
        ? trans.__('What this notebook’s kernel displays runs in the page, with your files and credentials. Click to confine it again.')
        : trans.__('What this notebook’s sandboxed kernel displays is drawn in frames that cannot act in the page. Click to change that.');
  }

  private readonly button = element('button', 'sbx-Drawing-button', { type: 'button' });
  private readonly icon = element('span', 'sbx-Drawing-icon', { 'aria-hidden': 'true' });
  private readonly text = element('span', 'sbx-Drawing-text');
}

import { Widget } from '@lumino/widgets';

import { element } from '../../components/dom';
import { trans } from '../../components/translation';
import { displayName } from '../../protocol/sandboxes';
import { sandboxIcon } from '../icons';
import type { Sandboxes } from '../sandboxes';
import type { CurrentNotebook } from './currentNotebook';

/** Names the sandbox of the document in front in the status bar; a click shows the panel. */
export class SandboxStatus extends Widget {
  constructor(
    private readonly notebook: CurrentNotebook,
    private readonly sandboxes: Sandboxes,
    showPanel: () => void
  ) {
    super({ node: element('button', 'sbx-Status', { type: 'button' }) });
    const icon = element('span', 'sbx-Status-icon');
    sandboxIcon.element({ container: icon });
    this.node.append(icon, this.name);
    this.node.addEventListener('click', showPanel);
    notebook.changed.connect(this.fill);
    sandboxes.changed.connect(this.fill);
    this.fill();
  }

  private readonly fill = (): void => {
    const { sandboxId } = this.notebook;
    const sandbox = sandboxId === undefined ? undefined : this.sandboxes.find(sandboxId);
    this.name.textContent = sandbox === undefined ? trans.__('Sandbox') : displayName(sandbox);
    this.node.title = trans.__('The kernel of %1 runs in this sandbox. Show the sandboxes.', this.notebook.name);
  };

  private readonly name = element('span', 'sbx-Status-name');
}

import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { Notification } from '@jupyterlab/apputils';

import type { Sandboxes } from '../sandboxes';
import { ISandboxes } from '../tokens';
import { LauncherCards, whyNoKernels } from './launcherCards';

/** Disables the launcher's cards of sandboxed kernels where sandboxes cannot serve kernels. */
export const launcherPlugin: JupyterFrontEndPlugin<void> = {
  id: 'sbx-jupyter:launcher-cards',
  description: 'Disables what cannot start on this machine, and says why.',
  autoStart: true,
  requires: [ISandboxes],
  activate: (app: JupyterFrontEnd, sandboxes: Sandboxes) => {
    const cards = new LauncherCards(document.body, app.serviceManager.kernelspecs, reason => {
      Notification.warning(reason, { autoClose: 10_000 });
    });
    sandboxes.changed.connect(() => {
      cards.reason = whyNoKernels(sandboxes.info?.isolation);
    });
  }
};

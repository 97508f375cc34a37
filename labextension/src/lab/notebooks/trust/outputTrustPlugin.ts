import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import type { ISessionContext } from '@jupyterlab/apputils';
import { Dialog, showDialog } from '@jupyterlab/apputils';
import type { DocumentRegistry } from '@jupyterlab/docregistry';
import type { IRenderMimeRegistry } from '@jupyterlab/rendermime';

import { trans } from '../../../components/translation';
import { DRIVE_NAME } from '../../files/drive';
import { notifyError } from '../../notifications';
import type { ICells } from './cellTrust';
import { CellTrust } from './cellTrust';
import { framedHtmlFactory } from './outputFrames';
import type { ISpecs } from '../sandboxedKernels';
import { runsInSandbox } from '../sandboxedKernels';

/** The parts of a notebook panel that are used here. */
interface INotebookPanel {
  readonly content: { readonly rendermime?: IRenderMimeRegistry };
}

/** Keeps outputs of sandboxed kernels untrusted, and draws those that need a frame. */
export const outputTrustPlugin: JupyterFrontEndPlugin<void> = {
  id: 'sbx-jupyter:output-trust',
  description: 'Keeps cells untrusted that a kernel in a sandbox runs.',
  autoStart: true,
  activate: (app: JupyterFrontEnd) => {
    const { contents, kernelspecs } = app.serviceManager;
    app.docRegistry.addWidgetExtension('Notebook', {
      createNew: (widget, context) => {
        const { content } = widget as object as INotebookPanel;
        const { cells } = context.model as DocumentRegistry.IModel & { readonly cells?: ICells };
        if (content.rendermime === undefined || cells === undefined) {
          return;
        }
        const session = context.sessionContext;
        drawFrames(content.rendermime, session, kernelspecs);
        new CellTrust(cells, {
          isConfined: () => runsInSandbox(kernelspecs, kernelName(session)),
          isFromSandbox: () =>
            runsInSandbox(kernelspecs, kernelName(session)) || contents.driveName(context.path) === DRIVE_NAME,
          ask,
          trusted: () => {
            context.save().catch((error: unknown) => {
              notifyError(String(error));
            });
          }
        });
      }
    });
  }
};

/** The name of the kernel's specification, also of one that has ended. */
function kernelName(session: ISessionContext): string | undefined {
  return session.session?.kernel?.name ?? session.kernelPreference.name;
}

function drawFrames(rendermime: IRenderMimeRegistry, session: ISessionContext, specs: ISpecs): void {
  const plain = rendermime.getFactory('text/html');
  if (plain === undefined) {
    return;
  }
  let hasRun = false;
  session.iopubMessage.connect((_, message) => {
    hasRun ||= message.header.msg_type === 'execute_input' && runsInSandbox(specs, kernelName(session));
  });
  // The plain renderer has the rank 50.
  rendermime.addFactory(framedHtmlFactory(plain, () => hasRun), 49);
}

async function ask(): Promise<boolean> {
  const result = await showDialog({
    title: trans.__('Trust what a sandbox wrote?'),
    body: trans.__(
      'Code in a sandbox wrote outputs of this notebook. Trusted outputs run their scripts in this page, with your files and your credentials: the sandbox does not contain what they do. Cells that its kernel runs from now on stay untrusted.'
    ),
    buttons: [Dialog.cancelButton(), Dialog.warnButton({ label: trans.__('Trust the outputs') })],
    defaultButton: 0
  });
  return result.button.accept;
}

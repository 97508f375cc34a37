import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { Dialog, showDialog } from '@jupyterlab/apputils';
import type { DocumentRegistry } from '@jupyterlab/docregistry';

import { trans } from '../../../components/translation';
import type { ISandbox } from '../../../protocol/sandboxes';
import { displayName } from '../../../protocol/sandboxes';
import { describeError } from '../../errorDescription';
import { DRIVE_NAME } from '../../files/drive';
import { HostKernels } from '../hostKernels';
import { confineHtmlPreview } from './htmlPreviews';
import { confineMimeDocument, withholdMimeViewers } from './mimeDocuments';
import type { ISpecs } from '../sandboxedKernels';
import { runsInSandbox, sandboxedKernel } from '../sandboxedKernels';
import { notifyError } from '../../notifications';
import type { Sandboxes } from '../../sandboxes';
import { ISandboxes } from '../../tokens';

/** The form of sandbox ids. Ordinary folder names are shorter, so a kernel for them starts without a request. */
const SANDBOX_ID = /^[a-z0-9]{20,40}$/;

/** Keeps files of sandboxes from acting on the host: asks before a kernel runs them, and confines previews. */
export const untrustedFilesPlugin: JupyterFrontEndPlugin<void> = {
  id: 'sbx-jupyter:untrusted-files',
  description: 'Keeps files of sandboxes from acting outside of them.',
  autoStart: true,
  requires: [ISandboxes],
  activate: (app: JupyterFrontEnd, sandboxes: Sandboxes) => {
    const { contents, sessions, kernelspecs } = app.serviceManager;
    const label = (kernel: string) => kernelspecs.specs?.kernelspecs[kernel]?.display_name ?? kernel;
    const isSandbox = async (id: string) =>
      SANDBOX_ID.test(id) && (await findSandbox(sandboxes, id)) !== undefined;
    const kernels = new HostKernels(contents, DRIVE_NAME, isSandbox, {
      isSandboxed: kernel => runsInSandbox(kernelspecs, kernel),
      startInside: (sandboxId, kernel, path) => sandboxes.startKernel(sandboxId, kernel, path),
      ask: async (sandboxId, kernel) => {
        const sandbox = await findSandbox(sandboxes, sandboxId);
        return ask(sandbox === undefined ? sandboxId : displayName(sandbox), label(kernel));
      },
      failed: error => {
        const { title, message } = describeError(error, sandboxes.info);
        notifyError(trans.__('No kernel was started in the sandbox. %1: %2', title, message));
      }
    });
    kernels.guardSessions(sessions);
    guardFactories(app.docRegistry, kernels);
    withholdMimeViewers(app.docRegistry, path => kernels.isInside(path));
    app.docRegistry.addWidgetExtension('Notebook', {
      createNew: (_, context) => {
        if (kernels.isInside(context.path)) {
          startInside(context, kernelspecs);
        }
      }
    });
  }
};

/** Gives a notebook of a sandbox a kernel in that sandbox, unless it has one or there is none for its language. */
function startInside(context: DocumentRegistry.Context, specs: ISpecs): void {
  const { sessionContext } = context;
  void Promise.all([context.ready, sessionContext.ready]).then(async () => {
    const { defaultKernelLanguage } = context.model;
    const kernel = sandboxedKernel(specs, defaultKernelLanguage);
    if (sessionContext.session === null && kernel !== undefined && !sessionContext.isDisposed) {
      await sessionContext.changeKernel({ name: kernel });
    }
  });
}

/** Guards the documents of every viewer, also of those that are registered later. */
function guardFactories(registry: DocumentRegistry, kernels: HostKernels): void {
  const extension: DocumentRegistry.WidgetExtension = {
    createNew: (widget, context) => {
      kernels.guard(context);
      confineMimeDocument(widget, () => kernels.isInside(context.path));
      if (kernels.isInside(context.path)) {
        confineHtmlPreview(widget);
      }
    }
  };
  for (const factory of registry.widgetFactories()) {
    registry.addWidgetExtension(factory.name, extension);
  }
  registry.changed.connect((_, change) => {
    if (change.type === 'widgetFactory' && change.change === 'added' && change.name !== undefined) {
      registry.addWidgetExtension(change.name, extension);
    }
  });
}

/** The sandbox with this id, which the page may not have listed yet. */
async function findSandbox(sandboxes: Sandboxes, sandboxId: string): Promise<ISandbox | undefined> {
  const find = () => sandboxes.items?.find(item => item.sandboxID === sandboxId);
  if (find() === undefined) {
    await sandboxes.refresh();
  }
  return find();
}

async function ask(sandbox: string, kernel: string): Promise<boolean> {
  const result = await showDialog({
    title: trans.__('Run outside the sandbox?'),
    body: trans.__(
      'This file is stored in the sandbox “%1”, where code that you do not trust may have written it. The kernel “%2” runs on the Jupyter server, with your files and your credentials: the sandbox does not contain what it does.',
      sandbox,
      kernel
    ),
    buttons: [Dialog.cancelButton(), Dialog.warnButton({ label: trans.__('Run outside the sandbox') })],
    defaultButton: 0
  });
  return result.button.accept;
}

import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import type { ISessionContext } from '@jupyterlab/apputils';
import { Dialog, ICommandPalette, showDialog } from '@jupyterlab/apputils';
import { PathExt } from '@jupyterlab/coreutils';
import { Widget } from '@lumino/widgets';

import { element } from '../../components/dom';
import { trans } from '../../components/translation';
import type { KernelVariant } from '../../protocol/api';
import { CommandIDs } from '../commandIds';
import { describeError } from '../errorDescription';
import { notifyError } from '../notifications';
import type { Sandboxes } from '../sandboxes';
import { ISandboxes } from '../tokens';
import { findVariant, installVariant } from './kernelVariants';
import { runsInSandbox } from './sandboxedKernels';

/** The widget in front, which may have a kernel. */
interface IWithKernel {
  readonly sessionContext?: ISessionContext;
}

/** Starts the kernel of a notebook or console again in a sandbox, whatever program it is. */
export const runInSandboxPlugin: JupyterFrontEndPlugin<void> = {
  id: 'sbx-jupyter:run-in-sandbox',
  description: 'Runs the kernel of a notebook in a sandbox.',
  autoStart: true,
  requires: [ISandboxes],
  optional: [ICommandPalette],
  activate: (app: JupyterFrontEnd, sandboxes: Sandboxes, palette: ICommandPalette | null) => {
    const { kernelspecs } = app.serviceManager;
    const inFront = () => {
      const { sessionContext } = (app.shell.currentWidget ?? {}) as object as IWithKernel;
      const name = sessionContext?.session?.kernel?.name;
      return name === undefined || runsInSandbox(kernelspecs, name) ? undefined : sessionContext;
    };
    app.commands.addCommand(CommandIDs.runInSandbox, {
      label: trans.__('Run This Kernel in a Sandbox…'),
      caption: trans.__('Start the kernel of this notebook again, in a sandbox of its own.'),
      isEnabled: () => inFront() !== undefined,
      describedBy: { args: { type: 'object', properties: {} } },
      execute: async () => {
        const session = inFront();
        const kernel = session?.session?.kernel?.name;
        if (session === undefined || kernel === undefined) {
          return;
        }
        try {
          const variant = await findVariant(sandboxes.api, kernel);
          const label = kernelspecs.specs?.kernelspecs[kernel]?.display_name ?? kernel;
          if (await ask(session, label, variant)) {
            const name = await installVariant(sandboxes.api, kernel, variant.shown);
            await kernelspecs.refreshSpecs();
            await session.changeKernel({ name });
          }
        } catch (error) {
          const { title, message } = describeError(error, sandboxes.info);
          notifyError(trans.__('The kernel does not run in a sandbox. %1: %2', title, message));
        }
      }
    });
    palette?.addItem({ command: CommandIDs.runInSandbox, category: trans.__('Kernel Operations') });
  }
};

/** Says what changes, and names each folder of the machine that the sandbox will see. */
async function ask(session: ISessionContext, label: string, variant: KernelVariant): Promise<boolean> {
  const shows = variant.shown.length > 0;
  const isNew = shows && !variant.isThere;
  const body = new Widget();
  body.addClass('sbx-Form');
  body.node.append(
    element(
      'p',
      '',
      {},
      trans.__(
        'The kernel “%1” of %2 is started again in a sandbox of its own. Its variables are lost, and it sees the files of the sandbox instead of yours.',
        label,
        PathExt.basename(session.path)
      )
    )
  );
  if (shows) {
    const folders = variant.shown.map(path => element('li', '', {}, element('code', '', {}, path)));
    body.node.append(
      element(
        'p',
        '',
        {},
        !isNew
          ? trans.__('As you allowed before, the sandbox sees these folders of this machine, read-only and without what other users may not read:')
          : trans.__('Its program lies in an environment that sandboxes do not see. Allow this kernel’s sandboxes to see these folders of this machine, read-only and without what other users may not read?')
      ),
      element('ul', 'sbx-ShownFolders', {}, ...folders)
    );
  }
  const accept = isNew ? trans.__('Show and Run in a Sandbox') : trans.__('Run in a Sandbox');
  const result = await showDialog({
    title: trans.__('Run this kernel in a sandbox?'),
    body,
    buttons: [
      Dialog.cancelButton(),
      isNew ? Dialog.warnButton({ label: accept }) : Dialog.okButton({ label: accept })
    ],
    defaultButton: isNew ? 0 : 1
  });
  return result.button.accept;
}

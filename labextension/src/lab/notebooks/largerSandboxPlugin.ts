import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import type { ISessionContext } from '@jupyterlab/apputils';
import { Notification } from '@jupyterlab/apputils';
import { PathExt } from '@jupyterlab/coreutils';

import { trans } from '../../components/translation';
import type { ISandboxSize } from '../../protocol/sandboxes';
import { CommandIDs } from '../commandIds';
import { describeError } from '../errorDescription';
import type { Sandboxes } from '../sandboxes';
import { ISandboxes } from '../tokens';
import { parseEnding } from './kernelEnding';
import { runsInSandbox } from './sandboxedKernels';
import type { IFormerSize } from './sizeDialog';

/** The widget in front, which may have a kernel. */
interface IWithKernel {
  readonly sessionContext?: ISessionContext;
}

/** Says why the sandboxed kernel of a notebook died, and restarts it in a larger sandbox. */
export const largerSandboxPlugin: JupyterFrontEndPlugin<void> = {
  id: 'sbx-jupyter:larger-sandbox',
  description: 'Restarts the kernel of a notebook in a larger sandbox.',
  autoStart: true,
  requires: [ISandboxes],
  activate: (app: JupyterFrontEnd, sandboxes: Sandboxes) => {
    const { kernelspecs } = app.serviceManager;
    const inFront = () => {
      const { sessionContext } = (app.shell.currentWidget ?? {}) as object as IWithKernel;
      const name = sessionContext?.session?.kernel?.name;
      return runsInSandbox(kernelspecs, name) ? sessionContext : undefined;
    };
    app.docRegistry.addWidgetExtension('Notebook', {
      createNew: (_, { sessionContext }) => {
        sessionContext.iopubMessage.connect((_session, message) => {
          const ending = parseEnding(message.header.msg_type, message.content);
          if (ending !== undefined && runsInSandbox(kernelspecs, sessionContext.session?.kernel?.name)) {
            const former = { memoryMB: ending.memoryMB, isOutOfTime: ending.cause === 'time' };
            offer(sessionContext, former, () => void restart(sessionContext, sandboxes, former));
          }
        });
      }
    });
    app.commands.addCommand(CommandIDs.restartLarger, {
      label: trans.__('Restart Kernel in Another Sandbox…'),
      caption: trans.__('Create the sandbox of the notebook’s kernel again, larger or fresh.'),
      isEnabled: () => inFront() !== undefined,
      describedBy: { args: { type: 'object', properties: {} } },
      execute: async () => {
        const session = inFront();
        if (session !== undefined) {
          const sandboxId = sandboxes.sandboxOfKernel(session.session?.kernel?.id ?? '') ?? '';
          await restart(session, sandboxes, { memoryMB: sandboxes.find(sandboxId)?.memoryMB, isOutOfTime: false });
        }
      }
    });
  }
};

/** Says it in short, since JupyterLab cuts longer texts; the cell says more. */
function offer(session: ISessionContext, former: IFormerSize, act: () => void): void {
  const name = PathExt.basename(session.path);
  const memory = former.memoryMB === undefined ? '' : ` (${former.memoryMB} MiB)`;
  const text = former.isOutOfTime
    ? trans.__('The kernel of %1 has ended: its sandbox reached its time limit.', name)
    : trans.__('The kernel of %1 was killed: its sandbox had too little memory%2.', name, memory);
  Notification.error(text, {
    autoClose: false,
    actions: [{ label: trans.__('Restart in a larger sandbox'), callback: act }]
  });
}

async function restart(session: ISessionContext, sandboxes: Sandboxes, former: IFormerSize): Promise<void> {
  const kernelId = session.session?.kernel?.id;
  const { askForSize } = await import('./sizeDialog');
  const size = kernelId === undefined ? undefined : await askForSize(former);
  if (kernelId === undefined || size === undefined) {
    return;
  }
  const done = enlarge(session, sandboxes, kernelId, size);
  Notification.promise(done, {
    pending: { message: trans.__('The kernel restarts in another sandbox …'), options: { autoClose: false } },
    success: {
      message: hasFiles =>
        hasFiles === true
          ? trans.__('The kernel runs in the other sandbox, with its files and without its variables.')
          : trans.__('The kernel runs in a fresh sandbox, without the files of the former one.'),
      options: { autoClose: 10_000 }
    },
    error: {
      message: error => {
        const { title, message } = describeError(error, sandboxes.info);
        return trans.__('The kernel was not restarted in another sandbox. %1: %2', title, message);
      },
      options: { autoClose: false }
    }
  });
  await done.catch(() => undefined);
}

async function enlarge(
  session: ISessionContext,
  sandboxes: Sandboxes,
  kernelId: string,
  size: ISandboxSize
): Promise<boolean> {
  const hasFiles = await sandboxes.replaceSandbox(kernelId, size);
  await session.restartKernel();
  await sandboxes.refresh();
  return hasFiles;
}

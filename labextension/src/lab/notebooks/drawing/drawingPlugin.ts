import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import type { ISessionContext } from '@jupyterlab/apputils';
import { Dialog, Notification, showDialog } from '@jupyterlab/apputils';
import type { DocumentRegistry } from '@jupyterlab/docregistry';
import type { IRenderMimeRegistry } from '@jupyterlab/rendermime';
import { IStateDB } from '@jupyterlab/statedb';
import type { Widget } from '@lumino/widgets';

import { trans } from '../../../components/translation';
import { CommandIDs } from '../../commandIds';
import { describeError } from '../../errorDescription';
import { notifyError } from '../../notifications';
import type { Sandboxes } from '../../sandboxes';
import { ISandboxes } from '../../tokens';
import { guardComms } from './directComms';
import { addDirectOutputs } from './directOutputs';
import { DrawingButton } from './drawingButton';
import { PageDrawing } from './pageDrawing';
import { runsInSandbox } from '../sandboxedKernels';

/** The parts of a notebook panel that are used here. */
interface INotebookPanel {
  readonly content: { readonly rendermime?: IRenderMimeRegistry };
  readonly toolbar?: { insertBefore(at: string, name: string, widget: Widget): boolean };
}

/** The widget in front, which may be a notebook. */
interface INotebookInFront {
  readonly context?: DocumentRegistry.Context;
  readonly content?: { readonly rendermime?: IRenderMimeRegistry };
}

/** Lets the user decide that the kernel of a notebook draws in the page instead of in frames. */
export const drawingPlugin: JupyterFrontEndPlugin<void> = {
  id: 'sbx-jupyter:drawing',
  description: 'Lets a kernel in a sandbox draw in the page, after a warning.',
  autoStart: true,
  requires: [ISandboxes],
  optional: [IStateDB],
  activate: (app: JupyterFrontEnd, sandboxes: Sandboxes, kept: IStateDB | null) => {
    const { kernels, kernelspecs } = app.serviceManager;
    const drawing = new PageDrawing(sandboxes, kept);
    const isSandboxed = (kernel: string | undefined) => runsInSandbox(kernelspecs, kernel);
    guardComms(kernels, isSandboxed, (kernel, marks) => drawing.allows(kernel.id, marks));
    const choice = new Choice(drawing, sandboxes);
    app.docRegistry.addWidgetExtension('Notebook', {
      createNew: (widget, context) => {
        const { content, toolbar } = widget as object as INotebookPanel;
        if (content.rendermime === undefined) {
          return;
        }
        const session = context.sessionContext;
        addDirectOutputs(content.rendermime, marks => drawing.allows(session.session?.kernel?.id, marks));
        const button = new DrawingButton(() => void choice.toggle(context));
        toolbar?.insertBefore('kernelName', 'sbx-drawing', button);
        follow(session, drawing, button, isSandboxed);
        session.kernelChanged.connect(() => void choice.restore(context, isSandboxed));
      }
    });
    const inFront = () => {
      const { context, content } = (app.shell.currentWidget ?? {}) as object as INotebookInFront;
      const isNotebook = content?.rendermime !== undefined;
      return isNotebook && isSandboxed(context?.sessionContext.session?.kernel?.name) ? context : undefined;
    };
    app.commands.addCommand(CommandIDs.drawInPage, {
      label: trans.__('Let This Kernel Draw in the Page…'),
      caption: trans.__('Draw what a sandboxed kernel displays without frames, after a warning.'),
      isToggleable: true,
      isToggled: () => drawing.isOn(inFront()?.sessionContext.session?.kernel?.id),
      isEnabled: () => inFront() !== undefined,
      describedBy: { args: { type: 'object', properties: {} } },
      execute: async () => {
        const context = inFront();
        if (context !== undefined) {
          await choice.toggle(context);
        }
      }
    });
    drawing.changed.connect(() => {
      app.commands.notifyCommandChanged(CommandIDs.drawInPage);
    });
  }
};

/** Shows in the toolbar what holds for the kernel of a notebook. */
function follow(
  session: ISessionContext,
  drawing: PageDrawing,
  button: DrawingButton,
  isSandboxed: (kernel: string | undefined) => boolean
): void {
  const show = () => {
    const kernel = session.session?.kernel;
    button.show_(isSandboxed(kernel?.name) ? drawing.isOn(kernel?.id) : undefined);
  };
  session.kernelChanged.connect(show);
  drawing.changed.connect(show);
  session.disposed.connect(() => {
    drawing.changed.disconnect(show);
  });
  show();
}

/** Asks the user, and does what they choose. */
class Choice {
  constructor(
    private readonly drawing: PageDrawing,
    private readonly sandboxes: Sandboxes
  ) {}

  /** Lets the kernel of a notebook draw in the page after a warning, or confines it again. */
  async toggle(context: DocumentRegistry.Context): Promise<void> {
    const kernelId = context.sessionContext.session?.kernel?.id;
    if (kernelId === undefined) {
      return;
    }
    try {
      if (this.drawing.isOn(kernelId)) {
        await this.drawing.stop(kernelId);
        await this.drawing.keep(context.path, undefined);
        return;
      }
      const answer = await this.ask();
      if (answer === undefined) {
        return;
      }
      await this.drawing.start(kernelId);
      if (answer.isKept) {
        await this.drawing.keep(context.path, await this.sandboxOf(kernelId));
      }
      Notification.info(trans.__('The kernel draws in the page. Run cells again to see it.'), { autoClose: 5000 });
    } catch (error) {
      const { title, message } = describeError(error, this.sandboxes.info);
      notifyError(trans.__('The kernel draws in frames as before. %1: %2', title, message));
    }
  }

  /** Lets a kernel draw that the user had chosen for this notebook and sandbox, to be kept. */
  async restore(
    context: DocumentRegistry.Context,
    isSandboxed: (kernel: string | undefined) => boolean
  ): Promise<void> {
    const kernel = context.sessionContext.session?.kernel;
    if (kernel === undefined || kernel === null || !isSandboxed(kernel.name)) {
      return;
    }
    const sandboxId = await this.drawing.keptFor(context.path).catch(() => undefined);
    if (sandboxId !== undefined && sandboxId === (await this.sandboxOf(kernel.id))) {
      // After a failure the kernel stays in its frames, as the toolbar says.
      await this.drawing.start(kernel.id).catch(() => undefined);
    }
  }

  private async sandboxOf(kernelId: string): Promise<string | undefined> {
    if (this.sandboxes.sandboxOfKernel(kernelId) === undefined) {
      await this.sandboxes.refresh();
    }
    return this.sandboxes.sandboxOfKernel(kernelId);
  }

  private async ask(): Promise<{ readonly isKept: boolean } | undefined> {
    const result = await showDialog({
      title: trans.__('Let this kernel draw in the page?'),
      body: trans.__(
        'The kernel runs in a sandbox, and what it displays is drawn in frames that cannot act in this page. Without the frames, its scripts and widgets run in this page with your files and your credentials: the sandbox does not contain what they do. The choice holds for this notebook until the page is loaded again.'
      ),
      ...(this.drawing.canKeep
        ? { checkbox: { label: trans.__('Remember it for this notebook and this sandbox'), checked: false } }
        : {}),
      buttons: [Dialog.cancelButton(), Dialog.warnButton({ label: trans.__('Let it draw in the page') })],
      defaultButton: 0
    });
    return result.button.accept ? { isKept: result.isChecked === true } : undefined;
  }
}

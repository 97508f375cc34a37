import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import type { ISessionContext } from '@jupyterlab/apputils';
import { Notification } from '@jupyterlab/apputils';
import type { DocumentRegistry } from '@jupyterlab/docregistry';
import type { Kernel } from '@jupyterlab/services';

import { trans } from '../../components/translation';
import { messageOf } from '../../protocol/errors';
import { DRIVE_NAME } from '../files/drive';
import { showCellLine } from './cellLinks';
import type { INotebookMemory } from './notebookMemory';
import { COMM_TARGET, METADATA_KEY, parseMemory, recoveryCode } from './notebookMemory';
import { notifyError } from '../notifications';
import type { Sandboxes } from '../sandboxes';
import { ISandboxes } from '../tokens';

/** Whether the magics are loaded in a kernel, which then knows its sandbox itself. */
const IS_LOADED = "'sbx_jupyter.magics.extension' in __import__('sys').modules";

/** The parts of a notebook's model that are used here. */
interface IMetadata {
  getMetadata(key: string): unknown;
  setMetadata(key: string, value: unknown): void;
  deleteMetadata(key: string): void;
}

/** Lets notebooks remember the sandbox that their magics use, and get it back when they are opened. */
export const notebookPlugin: JupyterFrontEndPlugin<void> = {
  id: 'sbx-jupyter:notebooks',
  description: 'Lets notebooks remember their sandbox.',
  autoStart: true,
  requires: [ISandboxes],
  activate: (app: JupyterFrontEnd, sandboxes: Sandboxes) => {
    app.docRegistry.addWidgetExtension('Notebook', {
      createNew: (widget, context) => {
        const { sessionContext } = context;
        const model = context.model as DocumentRegistry.IModel & Partial<IMetadata>;
        if (isNotebook(model)) {
          listen(sessionContext, model);
          void context.ready.then(() => offer(sessionContext, model, sandboxes)).catch(notifyFailure);
        }
        followLinks(app, widget);
      }
    });
  }
};

function isNotebook(model: Partial<IMetadata>): model is IMetadata {
  return typeof model.getMetadata === 'function' && typeof model.setMetadata === 'function';
}

/** Keeps what the magics of a notebook's kernel say. */
function listen(session: ISessionContext, model: IMetadata): void {
  const register = (kernel: Kernel.IKernelConnection | null | undefined) =>
    kernel?.registerCommTarget(COMM_TARGET, (comm, message) => {
      const memory = parseMemory(message.content.data);
      if (memory !== undefined) {
        model.setMetadata(METADATA_KEY, memory);
      }
      comm.dispose();
    });
  register(session.session?.kernel);
  session.kernelChanged.connect((_, change) => register(change.newValue));
}

/** Offers to get the remembered sandbox back, unless the kernel still has it. */
async function offer(session: ISessionContext, model: IMetadata, sandboxes: Sandboxes): Promise<void> {
  const memory = parseMemory(model.getMetadata(METADATA_KEY));
  if (memory === undefined) {
    return;
  }
  await session.ready;
  const kernel = session.session?.kernel;
  if (kernel === null || kernel === undefined || (await isLoaded(kernel))) {
    return;
  }
  await sandboxes.refresh();
  const isThere = sandboxes.items?.some(item => item.sandboxID === memory.sandbox) ?? false;
  const label = memory.name === '' ? memory.sandbox : memory.name;
  const run = (way: 'reconnect' | 'restore' | 'recreate') => void recover(session, memory, way).catch(notifyFailure);
  Notification.info(
    isThere
      ? trans.__('This notebook used the sandbox “%1”.', label)
      : trans.__('This notebook used the sandbox “%1”, which has ended.', label),
    {
      autoClose: false,
      actions: [
        ...(isThere ? [{ label: trans.__('Reconnect'), callback: () => { run('reconnect'); } }] : []),
        ...(memory.snapshot === null
          ? []
          : [{ label: trans.__('Restore snapshot'), callback: () => { run('restore'); } }]),
        { label: trans.__('Create anew'), callback: () => { run('recreate'); } },
        { label: trans.__('Forget'), callback: () => { model.deleteMetadata(METADATA_KEY); } }
      ]
    }
  );
}

async function isLoaded(kernel: Kernel.IKernelConnection): Promise<boolean> {
  const future = kernel.requestExecute({
    code: '',
    silent: true,
    store_history: false,
    user_expressions: { loaded: IS_LOADED }
  });
  const { content } = await future.done;
  if (content.status !== 'ok') {
    return true; // not Python: there is nothing to offer
  }
  const loaded = content.user_expressions['loaded'] as { data?: Record<string, unknown> } | undefined;
  return loaded?.data?.['text/plain'] !== 'False';
}

async function recover(
  session: ISessionContext,
  memory: INotebookMemory,
  way: 'reconnect' | 'restore' | 'recreate'
): Promise<void> {
  const future = session.session?.kernel?.requestExecute({
    code: recoveryCode(memory, way),
    store_history: false,
    stop_on_error: true
  });
  if (future === undefined) {
    notifyError(trans.__('The notebook has no kernel.'));
    return;
  }
  const { content } = await future.done;
  if (content.status === 'ok') {
    Notification.success(trans.__('The sandbox is in use. It has the variables that it still had.'), {
      autoClose: 5000
    });
  } else {
    notifyError('evalue' in content ? content.evalue : trans.__('The kernel did not answer.'));
  }
}

function notifyFailure(error: unknown): void {
  notifyError(messageOf(error));
}

/** Follows the links that the magics make: to lines of cells, and to files of sandboxes. */
function followLinks(app: JupyterFrontEnd, widget: object & { node: HTMLElement }): void {
  const follow = (event: MouseEvent) => {
    const link = (event.target as Element | null)?.closest('a.sbx-CellLink, a.sbx-FileLink');
    if (!(link instanceof HTMLAnchorElement)) {
      return;
    }
    event.preventDefault();
    event.stopPropagation();
    if (link.classList.contains('sbx-CellLink')) {
      showCellLine(widget, link.hash);
    } else {
      const path = `${DRIVE_NAME}:${link.dataset['sandbox'] ?? ''}${link.dataset['path'] ?? ''}`;
      void app.commands.execute('docmanager:open', { path }).catch(notifyFailure);
    }
  };
  widget.node.addEventListener('click', follow, true);
}

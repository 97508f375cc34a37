import type { Kernel, KernelMessage } from '@jupyterlab/services';

import { isJson } from '../../widgets/widgetStates';

/** The member of a message's metadata that names the pages which let the kernel draw. */
const MARKS = 'sbx_jupyter_marks';

/** The comms that JupyterLab has code for; a comm that nobody takes would be closed for every page. */
const WIDGETS = 'jupyter.widget';

/** Whether a kernel may open a comm in this page, by the marks of its message. */
export type MayOpen = (kernel: Kernel.IKernelConnection, marks: unknown) => boolean;

/**
 * Keeps kernels in sandboxes from opening comms, unless the message has the mark of this page.
 *
 * Another page of the same kernel, where somebody let it draw, makes its messages come here too.
 */
export function guardComms(
  kernels: Pick<Kernel.IManager, 'connectTo'>,
  isSandboxed: (kernel: string) => boolean,
  mayOpen: MayOpen
): void {
  const connect = kernels.connectTo.bind(kernels);
  kernels.connectTo = options => {
    const connection = connect(options);
    const register = connection.registerCommTarget.bind(connection);
    connection.registerCommTarget = (target, open) => {
      register(target, (comm, message) => {
        if (!isSandboxed(connection.name) || mayOpen(connection, marksOf(message))) {
          return open(comm, message);
        }
        comm.dispose();
        return undefined;
      });
    };
    if (isSandboxed(connection.name)) {
      connection.registerCommTarget(WIDGETS, comm => {
        comm.dispose();
      });
    }
    return connection;
  };
}

function marksOf(message: KernelMessage.ICommOpenMsg): unknown {
  return isJson(message.metadata) ? message.metadata[MARKS] : undefined;
}

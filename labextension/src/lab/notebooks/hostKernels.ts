import type { ISessionContext } from '@jupyterlab/apputils';
import type { Contents, Session } from '@jupyterlab/services';

import { trans } from '../../components/translation';
import { SandboxError } from '../../protocol/errors';
import { splitPath } from '../files/driveModel';

/** Asks whether a kernel of the host may run what is stored in a sandbox. */
export type IAskHostKernel = (path: string, kernel: string) => Promise<boolean>;

/** What a file looks like whose code a kernel of the host would run. */
interface IDocument {
  readonly path: string;
  readonly sessionContext: ISessionContext;
}

/**
 * Keeps kernels of the host from running files of sandboxes unless the user said so.
 *
 * A notebook that lies in a sandbox was perhaps written by code that nobody trusts. It opens without a kernel;
 * choosing one asks first. The answer holds for that file until the page is loaded again.
 */
export class HostKernels {
  constructor(
    private readonly contents: Pick<Contents.IManager, 'driveName' | 'localPath'>,
    private readonly drive: string,
    private readonly isSandbox: (id: string) => Promise<boolean>,
    private readonly ask: IAskHostKernel
  ) {}

  /** Makes a document that was just opened start without a kernel, and ask before it gets one. */
  guard(document: IDocument): void {
    if (!this.isInside(document.path)) {
      return;
    }
    const { sessionContext } = document;
    sessionContext.kernelPreference = {
      ...sessionContext.kernelPreference,
      shouldStart: false,
      autoStartDefault: false
    };
    const change = sessionContext.changeKernel.bind(sessionContext);
    sessionContext.changeKernel = async options => {
      const kernel = options?.name ?? options?.id;
      if (kernel !== undefined && !(await this.allows(document.path, kernel))) {
        return sessionContext.session?.kernel ?? null;
      }
      return change(options);
    };
    // "True" lets the user choose a kernel, whatever a remembered preference says.
    sessionContext.startKernel = () => Promise.resolve(true);
  }

  /** Makes every other way to start a kernel for a file of a sandbox ask too, such as a console. */
  guardSessions(sessions: Pick<Session.IManager, 'startNew'>): void {
    const start = sessions.startNew.bind(sessions);
    sessions.startNew = async (options, connection) => {
      // Consoles leave out the drive of their file.
      const inside = this.isInside(options.path) || (await this.isSandbox(splitPath(options.path).sandboxId));
      if (inside && !(await this.allows(options.path, options.kernel?.name ?? ''))) {
        throw new SandboxError('permission_denied', trans.__('No kernel was started.'));
      }
      return start(options, connection);
    };
  }

  /** Whether a file is stored in a sandbox. */
  isInside(path: string): boolean {
    return this.contents.driveName(path) === this.drive;
  }

  private async allows(path: string, kernel: string): Promise<boolean> {
    if (!this.allowed.has(path) && (await this.ask(splitPath(this.contents.localPath(path)).sandboxId, kernel))) {
      this.allowed.add(path);
    }
    return this.allowed.has(path);
  }

  private readonly allowed = new Set<string>();
}

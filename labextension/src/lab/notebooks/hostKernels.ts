import type { ISessionContext } from '@jupyterlab/apputils';
import type { Contents, Kernel, Session } from '@jupyterlab/services';

import { trans } from '../../components/translation';
import { SandboxError } from '../../protocol/errors';
import { splitPath } from '../files/driveModel';

/** The choice of kernels for files of sandboxes. */
export interface IKernelPlaces {
  /** Whether kernels of a specification run in sandboxes. */
  isSandboxed(kernel: string): boolean;
  /** Starts such a kernel in a sandbox, for a file there, and returns the kernel's id. */
  startInside(sandboxId: string, kernel: string, path: string): Promise<string>;
  /** Asks whether a kernel of the host may run what is stored in a sandbox. */
  ask(sandboxId: string, kernel: string): Promise<boolean>;
  /** Tells why a kernel did not start. */
  failed(error: unknown): void;
}

/** An open file whose code a kernel of the host would run. */
interface IDocument {
  readonly path: string;
  readonly sessionContext: ISessionContext;
}

/**
 * Keeps kernels of the host from running files of sandboxes unless the user said so.
 *
 * A notebook that lies in a sandbox was perhaps written by code that nobody trusts. A kernel that can run in a
 * sandbox runs in that one. Any other is asked about first; the answer holds for that file until the page is
 * loaded again.
 */
export class HostKernels {
  constructor(
    private readonly contents: Pick<Contents.IManager, 'driveName' | 'localPath'>,
    private readonly drive: string,
    private readonly isSandbox: (id: string) => Promise<boolean>,
    private readonly places: IKernelPlaces
  ) {}

  /** Makes a document that was just opened start without a kernel, and get one of its sandbox or ask. */
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
      try {
        const id = await this.startInside(this.contents.localPath(document.path), options?.name);
        if (id !== undefined) {
          return await change({ id });
        }
      } catch (error) {
        this.places.failed(error);
        return sessionContext.session?.kernel ?? null;
      }
      if (kernel !== undefined && !this.started.has(kernel) && !(await this.allows(document.path, kernel))) {
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
      // The type does not say so, but a session may name a kernel that runs already.
      const { id: running } = (options.kernel ?? {}) as Partial<Kernel.IModel>;
      if (!inside || this.started.has(running ?? '')) {
        return start(options, connection);
      }
      const id = await this.startInside(this.contents.localPath(options.path), options.kernel?.name);
      if (id !== undefined) {
        const kernel: Partial<Kernel.IModel> = { id };
        return start({ ...options, kernel }, connection);
      }
      if (!(await this.allows(options.path, options.kernel?.name ?? ''))) {
        throw new SandboxError('permission_denied', trans.__('No kernel was started.'));
      }
      return start(options, connection);
    };
  }

  /** Whether a file is stored in a sandbox. */
  isInside(path: string): boolean {
    return this.contents.driveName(path) === this.drive;
  }

  /** Starts a kernel in the sandbox of a file; `undefined` for kernels that run outside. */
  private async startInside(localPath: string, kernel: string | undefined): Promise<string | undefined> {
    if (kernel === undefined || !this.places.isSandboxed(kernel)) {
      return undefined;
    }
    const { sandboxId, path } = splitPath(localPath);
    const id = await this.places.startInside(sandboxId, kernel, path);
    this.started.add(id);
    return id;
  }

  private async allows(path: string, kernel: string): Promise<boolean> {
    if (!this.allowed.has(path) && (await this.places.ask(splitPath(this.contents.localPath(path)).sandboxId, kernel))) {
      this.allowed.add(path);
    }
    return this.allowed.has(path);
  }

  private readonly allowed = new Set<string>();
  /** The ids of the kernels that were started in the sandbox of their file. */
  private readonly started = new Set<string>();
}

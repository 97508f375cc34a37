import type { JupyterFrontEnd } from '@jupyterlab/application';
import type { ISessionContext } from '@jupyterlab/apputils';
import { PathExt } from '@jupyterlab/coreutils';
import type { ISignal } from '@lumino/signaling';
import { Signal } from '@lumino/signaling';

import type { Sandboxes } from '../sandboxes';
import type { ISpecs } from './sandboxedKernels';
import { runsInSandbox } from './sandboxedKernels';

/** The widget in front, which may have a kernel. */
interface IWithKernel {
  readonly sessionContext?: ISessionContext;
}

/** The parts of JupyterLab's shell that are used here; Notebook 7's does not tell when the widget in front changes. */
interface IShell {
  readonly currentWidget: object | null;
  readonly currentChanged?: ISignal<unknown, unknown>;
}

/** Knows the sandbox in which the kernel of the document in front runs. */
export class CurrentNotebook {
  constructor(
    shell: JupyterFrontEnd.IShell,
    private readonly sandboxes: Pick<Sandboxes, 'changed' | 'refresh' | 'sandboxOfKernel'>,
    private readonly specs: ISpecs
  ) {
    const { currentChanged } = shell as IShell;
    const follow = () => {
      this.follow((shell.currentWidget as IWithKernel | null)?.sessionContext ?? null);
    };
    currentChanged?.connect(follow);
    sandboxes.changed.connect(() => {
      this.update();
    });
    follow();
  }

  /** Emitted when another sandbox is that of the document in front. */
  get changed(): ISignal<this, void> {
    return this.changedSignal;
  }

  /** The sandbox; `undefined` if the kernel runs elsewhere or there is none. */
  get sandboxId(): string | undefined {
    return this.found;
  }

  /** The name of the document's file. */
  get name(): string {
    return PathExt.basename(this.session?.path ?? '');
  }

  /** A panel in front of which the user clicks keeps the notebook that was there before. */
  private follow(session: ISessionContext | null): void {
    if (session === null || session === this.session) {
      return;
    }
    this.session?.kernelChanged.disconnect(this.ask);
    this.session = session;
    session.kernelChanged.connect(this.ask);
    session.disposed.connect(() => {
      if (this.session === session) {
        this.session = null;
        this.update();
      }
    });
    this.ask();
  }

  /** The list may not know a kernel that has just started; for others nothing is asked. */
  private readonly ask = (): void => {
    this.update();
    if (this.found === undefined && runsInSandbox(this.specs, this.session?.session?.kernel?.name)) {
      void this.sandboxes.refresh();
    }
  };

  private update(): void {
    const kernelId = this.session?.session?.kernel?.id;
    const found = kernelId === undefined ? undefined : this.sandboxes.sandboxOfKernel(kernelId);
    if (found !== this.found) {
      this.found = found;
      this.changedSignal.emit();
    }
  }

  private session: ISessionContext | null = null;
  private found: string | undefined;
  private readonly changedSignal = new Signal<this, void>(this);
}

import { UUID } from '@lumino/coreutils';
import type { ISignal } from '@lumino/signaling';
import { Signal } from '@lumino/signaling';

import type { Sandboxes } from '../../sandboxes';

/** Seconds for which the server lets a kernel draw after each request. */
const LEASE_S = 300;

/** Milliseconds between two requests; browsers wake hidden pages once a minute. */
const RENEWAL_MS = 90_000;

/** A store for choices that outlive the page, such as JupyterLab's state database. */
export interface IKeptChoices {
  fetch(id: string): Promise<unknown>;
  save(id: string, value: string): Promise<unknown>;
  remove(id: string): Promise<unknown>;
}

interface IAllowed {
  /** A secret of this page and the server; it tells what was sent on this page's request. */
  readonly mark: string;
  readonly timer: ReturnType<typeof setInterval>;
}

/** The kernels in sandboxes that the user let draw in this page. */
export class PageDrawing {
  constructor(
    private readonly sandboxes: Pick<Sandboxes, 'letDraw'>,
    private readonly kept: IKeptChoices | null
  ) {}

  /** Emitted when a kernel may draw, or no longer. */
  get changed(): ISignal<this, void> {
    return this.changedSignal;
  }

  /** Whether choices can be kept. */
  get canKeep(): boolean {
    return this.kept !== null;
  }

  isOn(kernelId: string | undefined): boolean {
    return kernelId !== undefined && this.allowed.has(kernelId);
  }

  /** Whether a message of a kernel has the mark that this page gave for that kernel. */
  allows(kernelId: string | undefined, marks: unknown): boolean {
    const mark = this.allowed.get(kernelId ?? '')?.mark;
    return mark !== undefined && Array.isArray(marks) && marks.includes(mark);
  }

  /** Lets a kernel draw in this page until `stop`, or until the page is loaded again. */
  async start(kernelId: string): Promise<void> {
    if (this.allowed.has(kernelId)) {
      return;
    }
    const mark = UUID.uuid4();
    await this.sandboxes.letDraw(kernelId, mark, LEASE_S);
    const timer = setInterval(() => {
      // The kernel may have ended; without an answer, the server's permission ends by itself.
      this.sandboxes.letDraw(kernelId, mark, LEASE_S).catch(() => {
        this.forget(kernelId);
      });
    }, RENEWAL_MS);
    this.allowed.set(kernelId, { mark, timer });
    this.changedSignal.emit();
  }

  async stop(kernelId: string): Promise<void> {
    const mark = this.allowed.get(kernelId)?.mark;
    this.forget(kernelId);
    if (mark !== undefined) {
      await this.sandboxes.letDraw(kernelId, mark, 0);
    }
  }

  /** The sandbox whose kernel may draw in a notebook whenever that is opened. */
  async keptFor(path: string): Promise<string | undefined> {
    const found = await this.kept?.fetch(keyOf(path));
    return typeof found === 'string' ? found : undefined;
  }

  /** Keeps the choice for a notebook and a sandbox; `undefined` forgets it. */
  async keep(path: string, sandboxId: string | undefined): Promise<void> {
    await (sandboxId === undefined ? this.kept?.remove(keyOf(path)) : this.kept?.save(keyOf(path), sandboxId));
  }

  private forget(kernelId: string): void {
    clearInterval(this.allowed.get(kernelId)?.timer);
    if (this.allowed.delete(kernelId)) {
      this.changedSignal.emit();
    }
  }

  private readonly allowed = new Map<string, IAllowed>();
  private readonly changedSignal = new Signal<this, void>(this);
}

function keyOf(path: string): string {
  return `sbx-jupyter:draws-in-page:${path}`;
}

import { SandboxError } from '../protocol/errors';
import { element } from './dom';
import { trans } from './translation';
import type { ISandboxTransport, SandboxState } from './transport';

/** Milliseconds between two questions for the state. */
const INTERVAL = 10_000;

/** The state that a request gives; a sandbox that is not found has ended. */
export async function stateFrom(request: () => Promise<SandboxState>): Promise<SandboxState> {
  try {
    return await request();
  } catch (reason) {
    if (reason instanceof SandboxError && reason.code === 'not_found') {
      return 'ended';
    }
    throw reason;
  }
}

/** A line above a view, shown while its sandbox does not run. */
export class StateBand {
  /** `onState` is called with the state at first and after each change. */
  constructor(
    readonly node: HTMLElement,
    private readonly transport: ISandboxTransport,
    private readonly onState: (state: SandboxState) => void
  ) {
    node.classList.add('sbx-StateBand');
    node.setAttribute('role', 'status');
    node.hidden = true;
    this.tick();
  }

  dispose(): void {
    this.isDisposed = true;
    window.clearTimeout(this.timer);
    this.node.remove();
  }

  private readonly tick = (): void => {
    void this.read().finally(() => {
      // An ended sandbox does not come back.
      if (!this.isDisposed && this.state !== 'ended') {
        this.timer = window.setTimeout(this.tick, INTERVAL);
      }
    });
  };

  private async read(): Promise<void> {
    if (document.visibilityState === 'hidden') {
      return;
    }
    const state = await this.transport.state().catch(() => null);
    if (state !== null && state !== this.state && !this.isDisposed) {
      this.state = state;
      const text = TEXTS[state];
      this.node.hidden = text === null;
      this.node.replaceChildren(element('p', '', {}, text?.() ?? ''));
      this.onState(state);
    }
  }

  private state: SandboxState | null = null;
  private isDisposed = false;
  private timer = 0;
}

const TEXTS: Readonly<Record<SandboxState, (() => string) | null>> = {
  running: null,
  paused: () => trans.__('The sandbox is paused. Resume it in the Sandboxes panel, or connect to it again in a cell.'),
  ended: () => trans.__('The sandbox has ended; its files are gone.')
};

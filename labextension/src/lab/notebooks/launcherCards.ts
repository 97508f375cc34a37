import type { KernelSpec } from '@jupyterlab/services';

import { trans } from '../../components/translation';
import type { IIsolation } from '../../protocol/sandboxes';
import type { ISpecs } from './sandboxedKernels';
import { isSandboxed } from './sandboxedKernels';

const CARD = '.jp-LauncherCard';

/** Why no kernel can run in a sandbox of this server; `undefined` if one can, or nobody knows yet. */
export function whyNoKernels(isolation: IIsolation | null | undefined): string | undefined {
  return isolation?.tier === 'landlock' && isolation.loopback !== true
    ? trans.__('Sandboxes of this machine have no ports, which kernels need. “jupyter sbx doctor” says what the machine lacks.')
    : undefined;
}

/** Disables the launcher's cards of kernels that run in sandboxes while there is a reason. */
export class LauncherCards {
  constructor(
    private readonly root: HTMLElement,
    private readonly specs: ISpecs,
    private readonly refused: (reason: string) => void
  ) {
    // Before the card itself hears of it.
    for (const type of ['click', 'keydown'] as const) {
      root.addEventListener(type, this.onEvent, true);
    }
    this.observer = new MutationObserver(() => {
      this.mark();
    });
  }

  /** Disables the cards for a reason, or enables them. */
  set reason(reason: string | undefined) {
    if (reason === this.why) {
      return;
    }
    this.why = reason;
    this.observer.disconnect();
    if (reason !== undefined) {
      this.observer.observe(this.root, { childList: true, subtree: true });
    }
    this.mark();
  }

  private mark(): void {
    for (const card of this.root.querySelectorAll<HTMLElement>(CARD)) {
      const isOff = this.why !== undefined && this.isOfSandbox(card);
      if (isOff && this.why !== undefined) {
        card.setAttribute('aria-disabled', 'true');
        card.setAttribute('aria-description', this.why);
        card.title = this.why;
      } else if (card.hasAttribute('aria-disabled')) {
        card.removeAttribute('aria-disabled');
        card.removeAttribute('aria-description');
        card.title = labelOf(card);
      }
    }
  }

  private isOfSandbox(card: HTMLElement): boolean {
    const label = labelOf(card);
    const specs = Object.values(this.specs.specs?.kernelspecs ?? {});
    return specs.some(spec => spec !== undefined && isNamed(spec, label));
  }

  private readonly onEvent = (event: Event): void => {
    const card = (event.target as Element | null)?.closest<HTMLElement>(`${CARD}[aria-disabled="true"]`);
    const isPress = !(event instanceof KeyboardEvent) || event.key === 'Enter' || event.key === ' ';
    if (card === null || card === undefined || this.why === undefined || !isPress) {
      return;
    }
    event.preventDefault();
    event.stopPropagation();
    this.refused(this.why);
  };

  private readonly observer: MutationObserver;
  private why: string | undefined;
}

function isNamed(spec: KernelSpec.ISpecModel, label: string): boolean {
  return isSandboxed(spec.metadata) && spec.display_name === label;
}

function labelOf(card: HTMLElement): string {
  return card.querySelector('.jp-LauncherCard-label')?.textContent ?? '';
}

import type { ISignal } from '@lumino/signaling';

import { releasedOutputs } from '../../files/heldOutputs';

/** The parts of a cell's model that are used here. */
export interface ICellModel {
  readonly type: string;
  trusted: boolean;
  readonly executionState?: string;
  readonly outputs?: ICellOutputs;
  readonly stateChanged: ISignal<ICellModel, { readonly name: string }>;
  deleteMetadata(key: string): void;
}

/** The outputs of a cell's model. */
interface ICellOutputs {
  readonly length: number;
  toJSON(): unknown[];
  fromJSON(outputs: unknown[]): void;
}

/** The cells of a notebook. */
export interface ICells extends Iterable<ICellModel> {
  readonly changed: ISignal<unknown, { readonly type: string }>;
}

/** The conditions on which the trust of a notebook's cells depends. */
export interface ITrustRules {
  /** Whether the notebook's kernel runs in a sandbox and may not draw in the page. */
  isConfined(): boolean;
  /** Whether code in a sandbox may have written outputs of the notebook. */
  isFromSandbox(): boolean;
  /** Asks whether all outputs shall be trusted nevertheless. */
  ask(): Promise<boolean>;
  /** Called after the user trusted the notebook. */
  trusted(): void;
}

/**
 * Keeps cells untrusted that a sandboxed kernel runs, and asks before anything else trusts them.
 *
 * JupyterLab marks each cell as trusted when it is run, and keeps the mark. What a sandbox wrote would then be
 * drawn as trusted later, for instance once the notebook has a kernel of the host.
 */
export class CellTrust {
  constructor(
    private readonly cells: ICells,
    private readonly rules: ITrustRules
  ) {
    this.watch();
    cells.changed.connect(() => {
      this.watch();
    });
  }

  /** Asks, and then trusts every cell, with the formats of its outputs that were held. */
  async request(): Promise<void> {
    if (this.isAsking) {
      return;
    }
    this.isAsking = true;
    try {
      if (await this.rules.ask()) {
        this.trustAll();
        this.rules.trusted();
      }
    } finally {
      this.isAsking = false;
    }
  }

  private watch(): void {
    for (const cell of this.cells) {
      // Connecting again does nothing.
      cell.stateChanged.connect(this.check);
    }
  }

  private readonly check = (cell: ICellModel, change: { readonly name: string }): void => {
    if (this.isTrusting || !cell.trusted || cell.type !== 'code') {
      return;
    }
    const isRunning = cell.executionState === 'running';
    if (change.name !== 'trusted' && !(change.name === 'executionState' && isRunning)) {
      return;
    }
    // A cell is also marked when its outputs are cleared.
    if (isRunning || (cell.outputs?.length ?? 0) === 0) {
      if (this.rules.isConfined()) {
        removeTrust(cell);
      }
    } else if (this.rules.isFromSandbox()) {
      removeTrust(cell);
      void this.request();
    }
  };

  private trustAll(): void {
    this.isTrusting = true;
    try {
      for (const cell of this.cells) {
        cell.trusted = true;
        release(cell);
      }
    } finally {
      this.isTrusting = false;
    }
  }

  private isTrusting = false;
  private isAsking = false;
}

/** Draws formats of outputs that were held when the notebook was opened. */
function release(cell: ICellModel): void {
  const released = cell.outputs && releasedOutputs(cell.outputs.toJSON());
  if (released !== undefined) {
    cell.outputs?.fromJSON(released);
  }
}

/** Removes the mark from the page and from what is saved. */
function removeTrust(cell: ICellModel): void {
  cell.trusted = false;
  cell.deleteMetadata('trusted');
}

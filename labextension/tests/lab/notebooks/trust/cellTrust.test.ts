import { Signal } from '@lumino/signaling';
import { describe, expect, it, vi } from 'vitest';

import { withHeldOutputs } from '../../../../src/lab/files/heldOutputs';
import type { ICellModel } from '../../../../src/lab/notebooks/trust/cellTrust';
import { CellTrust } from '../../../../src/lab/notebooks/trust/cellTrust';
import { waitFor } from '../../../waiting';

class Outputs {
  length = 0;
  saved: unknown[] = [];
  readonly fromJSON = vi.fn((outputs: unknown[]) => {
    this.saved = outputs;
  });

  toJSON(): unknown[] {
    return this.saved;
  }
}

/** Behaves as JupyterLab's model of a code cell. */
class Cell implements ICellModel {
  readonly type = 'code';
  readonly stateChanged = new Signal<this, { readonly name: string }>(this);
  readonly outputs = new Outputs();
  readonly metadata: Record<string, unknown> = {};

  get trusted(): boolean {
    return this.value;
  }

  set trusted(value: boolean) {
    if (this.value !== value) {
      this.value = value;
      if (value) {
        this.metadata['trusted'] = true;
      }
      this.stateChanged.emit({ name: 'trusted' });
    }
  }

  deleteMetadata(key: string): void {
    Reflect.deleteProperty(this.metadata, key);
  }

  /** What happens when a cell is run, up to its first output. */
  run(): void {
    this.outputs.length = 0;
    this.executionState = 'idle';
    this.trusted = true;
    this.executionState = 'running';
    this.stateChanged.emit({ name: 'executionState' });
    this.trusted = true;
    this.outputs.length = 1;
  }

  executionState = 'idle';
  private value = false;
}

function setUp(answer: boolean, places = { confined: true, fromSandbox: true }) {
  const cells = [new Cell(), new Cell()];
  const changed = new Signal<object, { readonly type: string }>({});
  const rules = {
    isConfined: () => places.confined,
    isFromSandbox: () => places.fromSandbox,
    ask: vi.fn(() => Promise.resolve(answer)),
    trusted: vi.fn()
  };
  const list = { [Symbol.iterator]: () => cells[Symbol.iterator](), changed };
  new CellTrust(list, rules);
  return { cells, changed, rules, places };
}

const trustedOnes = (cells: readonly Cell[]) => cells.map(cell => cell.trusted);

describe('cells of a sandboxed kernel', () => {
  it('stay untrusted when they are run, also those that were trusted before', () => {
    const { cells, places, rules } = setUp(true, { confined: false, fromSandbox: false });
    cells[0]?.run();
    expect(trustedOnes(cells)).toEqual([true, false]);
    places.confined = places.fromSandbox = true;
    cells.forEach(cell => { cell.run(); });
    expect(trustedOnes(cells)).toEqual([false, false]);
    expect(cells.map(cell => cell.metadata)).toEqual([{}, {}]);
    expect(rules.ask).not.toHaveBeenCalled();
  });

  it('stay untrusted when they were added later', () => {
    const { cells, changed } = setUp(true);
    const added = new Cell();
    cells.push(added);
    changed.emit({ type: 'add' });
    added.run();
    expect(added.trusted).toBe(false);
  });

  it('are trusted all at once after the user agreed, until they are run again', async () => {
    const { cells, rules } = setUp(true);
    cells.forEach(cell => { cell.run(); });
    cells.forEach(cell => { cell.executionState = 'idle'; });
    cells.forEach(cell => { cell.trusted = true; });
    expect(trustedOnes(cells)).toEqual([false, false]);
    await waitFor(() => { expect(rules.trusted).toHaveBeenCalledOnce(); });
    expect(trustedOnes(cells)).toEqual([true, true]);
    expect(rules.ask).toHaveBeenCalledOnce();
    cells[1]?.run();
    expect(trustedOnes(cells)).toEqual([true, false]);
  });

  it('get the formats that were held when the user agrees, and only then', async () => {
    const output = { output_type: 'display_data', data: { 'application/vnd.vega.v5+json': {} }, metadata: {} };
    const held = withHeldOutputs({ outputs: [output] })['outputs'] as unknown[];
    for (const answer of [false, true]) {
      const { cells: [cell, other], rules } = setUp(answer);
      Object.assign(cell?.outputs ?? {}, { saved: held, length: 1 });
      Object.assign(cell ?? {}, { trusted: true });
      await waitFor(() => { expect(rules.ask).toHaveBeenCalledOnce(); });
      await waitFor(() => { expect(cell?.trusted).toBe(answer); });
      expect(cell?.outputs.saved).toEqual(answer ? [output] : held);
      expect(other?.outputs.fromJSON).not.toHaveBeenCalled();
    }
  });

  it('stay untrusted after a no', async () => {
    const { cells, rules } = setUp(false);
    const [cell] = cells;
    cell?.run();
    Object.assign(cell ?? {}, { executionState: 'idle', trusted: true });
    await waitFor(() => { expect(rules.ask).toHaveBeenCalledOnce(); });
    expect(cell?.trusted).toBe(false);
    expect(rules.trusted).not.toHaveBeenCalled();
  });
});

describe('cells that a kernel of the host runs', () => {
  it('are trusted, also in a notebook of a sandbox', () => {
    const { cells } = setUp(false, { confined: false, fromSandbox: true });
    cells[0]?.run();
    expect(cells[0]?.trusted).toBe(true);
  });
});

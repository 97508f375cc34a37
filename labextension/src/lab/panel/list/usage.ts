import { Poll } from '@lumino/polling';
import type { ISignal } from '@lumino/signaling';
import { Signal } from '@lumino/signaling';

import type { IReading } from '../../../protocol/runtime';
import { toReading } from '../../../protocol/runtime';
import type { ISandbox } from '../../../protocol/sandboxes';
import type { Sandboxes } from '../../sandboxes';

/** Milliseconds between two requests; the engine takes a reading every five seconds. */
const INTERVAL = 10_000;
const MAX_INTERVAL = 120_000;
/** Readings of each sandbox that are kept: five minutes. */
export const KEPT = 30;
/** The most sandboxes that one request may name. */
const MAX_IDS = 100;

/** The last readings of the running sandboxes, by one request for all; asks only while it is followed. */
export class Usage {
  constructor(private readonly sandboxes: Sandboxes) {
    this.poll = new Poll({
      auto: false,
      name: 'sbx-jupyter:usage',
      factory: () => this.read(),
      frequency: { interval: INTERVAL, backoff: true, max: MAX_INTERVAL },
      standby: () => (this.followers === 0 ? true : 'when-hidden')
    });
  }

  /** Emitted after new readings. */
  get changed(): ISignal<this, void> {
    return this.changedSignal;
  }

  /** Calls `listener` after new readings; returns a function that ends it. */
  listen(listener: () => void): () => void {
    // With a slot of its own: a signal takes each function once.
    const slot = () => { listener(); };
    this.changedSignal.connect(slot);
    return () => {
      this.changedSignal.disconnect(slot);
    };
  }

  /** The readings of a sandbox, oldest first; the same array until there are others. */
  of(sandboxId: string): readonly IReading[] {
    return this.readings.get(sandboxId) ?? NONE;
  }

  /** Asks from time to time; returns a function that ends it. */
  follow(): () => void {
    this.followers += 1;
    void this.poll.refresh();
    let follows = true;
    return () => {
      if (follows) {
        follows = false;
        this.followers -= 1;
      }
    };
  }

  dispose(): void {
    this.poll.dispose();
    Signal.clearData(this);
  }

  private async read(): Promise<void> {
    const running = (this.sandboxes.items ?? []).filter(({ state }) => state === 'running');
    const latest = new Map<string, IReading>();
    for (let at = 0; at < running.length; at += MAX_IDS) {
      const query = { sandboxes: running.slice(at, at + MAX_IDS).map(idOf).join(',') };
      const { readings } = await this.sandboxes.api.get('/metrics', { query });
      Object.entries(readings).forEach(([id, metric]) => latest.set(id, toReading(metric)));
    }
    this.add(latest);
  }

  private add(latest: ReadonlyMap<string, IReading>): void {
    const known = new Set((this.sandboxes.items ?? []).map(idOf));
    for (const id of this.readings.keys()) {
      if (!known.has(id)) {
        this.readings.delete(id);
      }
    }
    let isNew = false;
    for (const [id, reading] of latest) {
      const before = this.of(id);
      if (before.at(-1)?.ts !== reading.ts) {
        this.readings.set(id, [...before, reading].slice(-KEPT));
        isNew = true;
      }
    }
    if (isNew) {
      this.changedSignal.emit();
    }
  }

  private readonly poll: Poll;
  private readonly readings = new Map<string, readonly IReading[]>();
  private readonly changedSignal = new Signal<this, void>(this);
  private followers = 0;
}

const NONE: readonly IReading[] = [];
const idOf = ({ sandboxID }: ISandbox): string => sandboxID;

import { trans } from '../../../components/translation';
import type { ISandbox } from '../../../protocol/sandboxes';
import type { ActivityKind } from '../../activities';
import type { Sandboxes } from '../../sandboxes';

/** Number of ended sandboxes that are remembered, in memory only. */
const MAX_ENDED = 10;
/** A sandbox that is gone within so many milliseconds of its end has used up its time. */
const NEAR_END = 15_000;

/** A sandbox that is gone, and why. */
export interface IEnded {
  readonly sandbox: ISandbox;
  readonly reason: string;
}

/** Remembers the sandboxes that ended while this page was open, but not those that it ended itself. */
export class EndedSandboxes {
  constructor(private readonly sandboxes: Pick<Sandboxes, 'changed' | 'items' | 'error' | 'info' | 'now' | 'activity'>) {
    sandboxes.changed.connect(() => {
      this.compare();
    });
  }

  /** The last one first. */
  get items(): readonly IEnded[] {
    return this.ended;
  }

  /** Forgets one. */
  remove(sandboxId: string): void {
    this.ended = this.ended.filter(({ sandbox }) => sandbox.sandboxID !== sandboxId);
  }

  private compare(): void {
    const { items, error, info } = this.sandboxes;
    if (items === null || error !== null) {
      return;
    }
    const connection = info?.connection?.name;
    if (connection !== this.connection) {
      // Sandboxes of another deployment have not ended: they are just not in this list.
      this.connection = connection;
      this.last = new Map();
      this.ended = [];
    }
    const now = new Map(items.map(sandbox => [sandbox.sandboxID, sandbox]));
    for (const [id, { sandbox, activity }] of this.last) {
      // The activity that ends one is over before the list is read again.
      if (!now.has(id) && activity !== 'killing') {
        this.remove(id);
        this.ended = [{ sandbox, reason: this.reason(sandbox) }, ...this.ended].slice(0, MAX_ENDED);
      }
    }
    this.last = new Map(
      items.map(sandbox => [sandbox.sandboxID, { sandbox, activity: this.sandboxes.activity(sandbox.sandboxID)?.kind }])
    );
    this.ended = this.ended.filter(({ sandbox }) => !now.has(sandbox.sandboxID));
  }

  private reason(sandbox: ISandbox): string {
    const isOver = sandbox.state === 'running' && Date.parse(sandbox.endAt) - this.sandboxes.now() < NEAR_END;
    return isOver ? trans.__('its time was over') : trans.__('ended elsewhere');
  }

  private last: ReadonlyMap<string, { readonly sandbox: ISandbox; readonly activity: ActivityKind | undefined }> = new Map();
  private ended: readonly IEnded[] = [];
  private connection: string | undefined;
}

import type { SandboxApi } from '../components/sandboxApi';
import type { IOperation } from '../protocol/sandboxes';

/** Milliseconds between two requests for the progress of an operation. */
const PROGRESS_INTERVAL = 700;

export type ActivityKind =
  | 'pausing'
  | 'resuming'
  | 'killing'
  | 'extending'
  | 'renaming'
  | 'snapshotting'
  | 'forking';

/** A request that is changing a sandbox. */
export interface IActivity {
  readonly kind: ActivityKind;
  /** Its progress, if the engine reports it. */
  readonly operation: IOperation | null;
}

/** The engine's operation kind for each activity that has progress. */
const OPERATION_KINDS: Readonly<Partial<Record<ActivityKind, string>>> = {
  snapshotting: 'snapshot',
  forking: 'fork',
  pausing: 'pause'
};

/** The requests that are changing sandboxes now: at most one for each sandbox is shown. */
export class Activities {
  constructor(
    private readonly api: SandboxApi,
    private readonly changed: () => void
  ) {}

  get(sandboxId: string): IActivity | undefined {
    return this.current.get(sandboxId);
  }

  /** Shows an activity while `work` is under way, with its progress where the engine reports it. */
  async during<T>(sandboxId: string, kind: ActivityKind, work: () => Promise<T>): Promise<T> {
    this.current.set(sandboxId, { kind, operation: null });
    this.changed();
    const operationKind = OPERATION_KINDS[kind];
    const timer = operationKind === undefined ? 0 : window.setInterval(() => void this.follow(sandboxId, operationKind), PROGRESS_INTERVAL);
    try {
      return await work();
    } finally {
      window.clearInterval(timer);
      this.current.delete(sandboxId);
    }
  }

  /** Updates the progress of an activity; not every deployment reports it. */
  private async follow(sandboxId: string, operationKind: string): Promise<void> {
    const path = { sandbox_id: sandboxId };
    const answer = await this.api.get('/sandboxes/{sandbox_id}/operations', { path }).catch(() => null);
    if (answer === null) {
      return;
    }
    const { operations } = answer;
    const activity = this.current.get(sandboxId);
    const operation = operations.find(({ kind }) => kind === operationKind) ?? null;
    if (activity !== undefined && OPERATION_KINDS[activity.kind] === operationKind) {
      this.current.set(sandboxId, { ...activity, operation });
      this.changed();
    }
  }

  private readonly current = new Map<string, IActivity>();
}

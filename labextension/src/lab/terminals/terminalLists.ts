import type { ITerminalInfo } from '../../protocol/sandboxes';

/** Number of sandboxes that are asked at once. */
const AT_ONCE = 6;

/**
 * The terminals of many sandboxes, asked for as seldom as possible.
 *
 * Each list costs one request. So a change in one sandbox asks that sandbox alone. Requests that come
 * while the same sandbox is asked share one more after it, since its answer may be older than the change.
 */
export class TerminalLists {
  constructor(private readonly ask: (sandboxId: string) => Promise<readonly ITerminalInfo[]>) {}

  /** The terminals that were found in a sandbox at last. */
  get(sandboxId: string): readonly ITerminalInfo[] {
    return this.found.get(sandboxId) ?? [];
  }

  /** Asks these sandboxes, a few at a time, and forgets all others. */
  async refresh(sandboxIds: readonly string[]): Promise<void> {
    const wanted = new Set(sandboxIds);
    for (const sandboxId of this.found.keys()) {
      if (!wanted.has(sandboxId)) {
        this.found.delete(sandboxId);
      }
    }
    const rest = [...wanted];
    const work = async (): Promise<void> => {
      for (let next = rest.shift(); next !== undefined; next = rest.shift()) {
        await this.refreshOne(next);
      }
    };
    await Promise.all(Array.from({ length: AT_ONCE }, work));
  }

  /** Asks one sandbox; one that does not answer has none. */
  refreshOne(sandboxId: string): Promise<void> {
    const asked = this.asked.get(sandboxId);
    if (asked === undefined) {
      return this.request(sandboxId);
    }
    asked.again ??= asked.done.then(() => this.request(sandboxId));
    return asked.again;
  }

  private request(sandboxId: string): Promise<void> {
    const done = this.list(sandboxId);
    this.asked.set(sandboxId, { done });
    return done;
  }

  private async list(sandboxId: string): Promise<void> {
    try {
      this.found.set(sandboxId, await this.ask(sandboxId));
    } catch {
      this.found.delete(sandboxId);
    } finally {
      this.asked.delete(sandboxId);
    }
  }

  private readonly found = new Map<string, readonly ITerminalInfo[]>();
  private readonly asked = new Map<string, { readonly done: Promise<void>; again?: Promise<void> }>();
}

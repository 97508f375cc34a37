import type { ITerminalInfo } from '../../protocol/sandboxes';

/** How many sandboxes are asked at once. */
const AT_ONCE = 6;

/**
 * The terminals of many sandboxes, asked for as seldom as possible.
 *
 * Each list costs one request. So a change in one sandbox asks that sandbox alone, and requests that
 * come while the same sandbox is asked join the one that is under way.
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
    const asked = this.asked.get(sandboxId) ?? this.request(sandboxId);
    this.asked.set(sandboxId, asked);
    return asked;
  }

  private async request(sandboxId: string): Promise<void> {
    try {
      this.found.set(sandboxId, await this.ask(sandboxId));
    } catch {
      this.found.delete(sandboxId);
    } finally {
      this.asked.delete(sandboxId);
    }
  }

  private readonly found = new Map<string, readonly ITerminalInfo[]>();
  private readonly asked = new Map<string, Promise<void>>();
}

import { Poll } from '@lumino/polling';
import type { ISignal } from '@lumino/signaling';
import { Signal } from '@lumino/signaling';

import type { IJupyterServer } from '../components/server';
import { checked, readJson } from '../components/server';
import { ServerTransport } from '../components/serverTransport';
import { sentenceOf } from '../protocol/errors';
import type { INewSandbox, ISandbox, IServerInfo, ITerminalInfo } from '../protocol/sandboxes';

const DEFAULT_INTERVAL = 5000;
/** The longest wait between two tries while the server does not answer, in milliseconds. */
const MAX_INTERVAL = 60_000;

/** What is being done to a sandbox right now. */
export type Activity = 'pausing' | 'resuming' | 'killing' | 'extending';

/** The sandboxes of this server: what is known of them, and what can be done to them. */
export class Sandboxes {
  constructor(readonly server: IJupyterServer) {
    this.poll = new Poll({
      auto: false,
      name: 'sbx-jupyter:sandboxes',
      factory: () => this.readOnce(),
      frequency: { interval: DEFAULT_INTERVAL, backoff: true, max: MAX_INTERVAL },
      standby: () => (this.watchers === 0 ? true : 'when-hidden')
    });
  }

  /** Emitted after anything below changed. */
  get changed(): ISignal<this, void> {
    return this.changedSignal;
  }

  /** `null` until the first answer. */
  get items(): readonly ISandbox[] | null {
    return this.known;
  }

  /** What the server last said about itself, its engine and the isolation. */
  get info(): IServerInfo | null {
    return this.serverInfo;
  }

  /** Why the last reading failed. */
  get error(): string | null {
    return this.problem;
  }

  get creating(): number {
    return this.creations;
  }

  /** The server's clock, in milliseconds: ends are its times, and our clock may be wrong. */
  now(): number {
    return Date.now() + this.skew;
  }

  activity(sandboxId: string): Activity | undefined {
    return this.activities.get(sandboxId);
  }

  find(sandboxId: string): ISandbox | undefined {
    return this.known?.find(sandbox => sandbox.sandboxID === sandboxId);
  }

  transport(sandboxId: string): ServerTransport {
    return new ServerTransport(this.server, sandboxId);
  }

  setInterval(milliseconds: number): void {
    this.poll.frequency = { ...this.poll.frequency, interval: milliseconds };
  }

  /** Polls while at least one watcher looks; gives back how it stops looking. */
  watch(): () => void {
    this.watchers += 1;
    void this.poll.refresh();
    let looking = true;
    return () => {
      if (looking) {
        looking = false;
        this.watchers -= 1;
      }
    };
  }

  /** Reads now and resolves when the answer is there; failures are in `error`. */
  async refresh(): Promise<void> {
    // Not through the poll, which stands by while nobody looks; and not the reading that is under
    // way, which may be older than what this is about.
    await this.reading?.catch(() => undefined);
    await this.readOnce().catch(() => undefined);
  }

  async create(request: INewSandbox): Promise<ISandbox> {
    this.creations += 1;
    this.changedSignal.emit();
    try {
      const sandbox = await readJson<ISandbox>(await this.post(['sandboxes'], request));
      this.changes += 1;
      this.known = [sandbox, ...(this.known ?? []).filter(item => item.sandboxID !== sandbox.sandboxID)];
      return sandbox;
    } finally {
      this.creations -= 1;
      this.changedSignal.emit();
      void this.refresh();
    }
  }

  kill(sandboxId: string): Promise<void> {
    return this.during(sandboxId, 'killing', async () => {
      await checked(await this.server.request(['sandboxes', sandboxId], { method: 'DELETE' }));
      this.known = this.known?.filter(item => item.sandboxID !== sandboxId) ?? null;
    });
  }

  pause(sandboxId: string): Promise<void> {
    return this.during(sandboxId, 'pausing', async () => {
      await checked(await this.post(['sandboxes', sandboxId, 'pause'], {}));
    });
  }

  resume(sandboxId: string, timeout?: number): Promise<void> {
    const body = timeout === undefined ? {} : { timeout };
    return this.during(sandboxId, 'resuming', async () => {
      await checked(await this.post(['sandboxes', sandboxId, 'connect'], body));
    });
  }

  /** Lets the sandbox live for `timeout` seconds from now. */
  setTimeout(sandboxId: string, timeout: number): Promise<void> {
    return this.during(sandboxId, 'extending', async () => {
      await checked(await this.post(['sandboxes', sandboxId, 'timeout'], { timeout }));
    });
  }

  async terminals(sandboxId: string): Promise<readonly ITerminalInfo[]> {
    return readJson(await this.server.request(['sandboxes', sandboxId, 'terminals']));
  }

  dispose(): void {
    this.poll.dispose();
    Signal.clearData(this);
  }

  /** Joins a reading that is under way. */
  private readOnce(): Promise<void> {
    this.reading ??= this.read().finally(() => {
      this.reading = null;
    });
    return this.reading;
  }

  private async read(): Promise<void> {
    const changes = this.changes;
    try {
      const [list, info] = await Promise.all([
        this.server.request(['sandboxes']),
        this.server.request(['info'])
      ]);
      const date = Date.parse(list.headers.get('Date') ?? '');
      // The header counts whole seconds, so a smaller difference means nothing.
      const skew = date - Date.now();
      this.skew = Math.abs(skew) > 2000 ? skew : 0;
      this.serverInfo = info.ok ? await readJson<IServerInfo>(info) : this.serverInfo;
      const { sandboxes } = await readJson<{ sandboxes: ISandbox[] }>(list);
      if (changes === this.changes) {
        this.known = [...sandboxes].sort((one, other) => Date.parse(other.startedAt) - Date.parse(one.startedAt));
      }
      this.problem = null;
    } catch (reason) {
      this.problem = sentenceOf(reason);
      throw reason;
    } finally {
      this.changedSignal.emit();
    }
  }

  private post(parts: readonly string[], body: object): Promise<Response> {
    return this.server.request(parts, {
      method: 'POST',
      body: JSON.stringify(body),
      headers: { 'Content-Type': 'application/json' }
    });
  }

  private async during(sandboxId: string, activity: Activity, work: () => Promise<void>): Promise<void> {
    this.activities.set(sandboxId, activity);
    this.changedSignal.emit();
    try {
      await work();
      this.changes += 1;
    } finally {
      this.activities.delete(sandboxId);
      this.changedSignal.emit();
      void this.refresh();
    }
  }

  private readonly poll: Poll;
  private readonly changedSignal = new Signal<this, void>(this);
  private readonly activities = new Map<string, Activity>();
  private known: readonly ISandbox[] | null = null;
  private serverInfo: IServerInfo | null = null;
  private problem: string | null = null;
  private reading: Promise<void> | null = null;
  /** Counts what we changed, so that a list read before does not undo it on the screen. */
  private changes = 0;
  private creations = 0;
  private watchers = 0;
  private skew = 0;
}

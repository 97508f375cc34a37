import { Poll } from '@lumino/polling';
import type { ISignal } from '@lumino/signaling';
import { Signal } from '@lumino/signaling';

import type { IJupyterServer } from '../components/jupyterServer';
import { checkResponse, readJson } from '../components/responses';
import { ServerTransport } from '../components/serverTransport';
import type {
  INewSandbox,
  IOperation,
  ISandbox,
  IServerInfo,
  ISnapshot,
  ITemplate,
  ITerminalInfo,
  ITerminalState
} from '../protocol/sandboxes';
import type { IErrorDescription } from './errorDescription';
import { describeError } from './errorDescription';

const JSON_BODY = { 'Content-Type': 'application/json' };
const DEFAULT_INTERVAL = 5000;
/** The longest wait between two tries while the server does not answer, in milliseconds. */
const MAX_INTERVAL = 60_000;

/** How often work that takes long is asked how far it is, in milliseconds. */
const PROGRESS_INTERVAL = 700;

export type ActivityKind =
  | 'pausing'
  | 'resuming'
  | 'killing'
  | 'extending'
  | 'renaming'
  | 'snapshotting'
  | 'forking';

/** What is being done to a sandbox right now. */
export interface IActivity {
  readonly kind: ActivityKind;
  /** How far it is, where the engine says so. */
  readonly operation: IOperation | null;
}

/** The operations of the engine that tell how far an activity is. */
const TOLD: Readonly<Partial<Record<ActivityKind, string>>> = {
  snapshotting: 'snapshot',
  forking: 'fork',
  pausing: 'pause'
};

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
  get error(): IErrorDescription | null {
    return this.failure === null ? null : describeError(this.failure, this.serverInfo);
  }

  get creating(): number {
    return this.creations;
  }

  /** The server's clock, in milliseconds: ends are its times, and our clock may be wrong. */
  now(): number {
    return Date.now() + this.skew;
  }

  activity(sandboxId: string): IActivity | undefined {
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
      await checkResponse(await this.server.request(['sandboxes', sandboxId], { method: 'DELETE' }));
      this.known = this.known?.filter(item => item.sandboxID !== sandboxId) ?? null;
    });
  }

  pause(sandboxId: string): Promise<void> {
    return this.during(sandboxId, 'pausing', async () => {
      await checkResponse(await this.post(['sandboxes', sandboxId, 'pause'], {}));
    });
  }

  resume(sandboxId: string, timeout?: number): Promise<void> {
    const body = timeout === undefined ? {} : { timeout };
    return this.during(sandboxId, 'resuming', async () => {
      await checkResponse(await this.post(['sandboxes', sandboxId, 'connect'], body));
    });
  }

  /** Lets the sandbox live for `timeout` seconds from now. */
  setTimeout(sandboxId: string, timeout: number): Promise<void> {
    return this.during(sandboxId, 'extending', async () => {
      await checkResponse(await this.post(['sandboxes', sandboxId, 'timeout'], { timeout }));
    });
  }

  /** Gives the sandbox another name, or none. */
  rename(sandboxId: string, name: string): Promise<void> {
    return this.during(sandboxId, 'renaming', async () => {
      const init = { method: 'PATCH', body: JSON.stringify({ name }), headers: JSON_BODY };
      const renamed = await readJson<ISandbox>(await this.server.request(['sandboxes', sandboxId], init));
      this.known = this.known?.map(item => (item.sandboxID === sandboxId ? renamed : item)) ?? null;
    });
  }

  /** Keeps the sandbox's files as something to create others from. */
  snapshot(sandboxId: string, name?: string): Promise<ISnapshot> {
    const body = name === undefined ? {} : { name };
    return this.during(sandboxId, 'snapshotting', async () =>
      readJson<ISnapshot>(await this.post(['sandboxes', sandboxId, 'snapshots'], body))
    );
  }

  /** Starts a copy of the sandbox's files. */
  fork(sandboxId: string, name: string, timeout: number): Promise<ISandbox> {
    return this.during(sandboxId, 'forking', async () =>
      readJson<ISandbox>(await this.post(['sandboxes', sandboxId, 'fork'], { name, timeout }))
    );
  }

  /** Ends work on the sandbox that takes long; who waits for it is told. */
  async cancel(sandboxId: string, operationId: string): Promise<void> {
    const parts = ['sandboxes', sandboxId, 'operations', operationId];
    await checkResponse(await this.server.request(parts, { method: 'DELETE' }));
  }

  /** Everything that a sandbox can be created from. */
  async templates(): Promise<readonly ITemplate[]> {
    const answer = await this.server.request(['templates']);
    return (await readJson<{ templates: ITemplate[] }>(answer)).templates;
  }

  async removeTemplate(templateId: string): Promise<void> {
    await checkResponse(await this.server.request(['templates', templateId], { method: 'DELETE' }));
  }

  /** What runs in a terminal. */
  async terminal(sandboxId: string, pid: number): Promise<ITerminalState> {
    return readJson(await this.server.request(['sandboxes', sandboxId, 'terminals', String(pid)]));
  }

  /** Ends a terminal and what runs in it. */
  async endTerminal(sandboxId: string, pid: number): Promise<void> {
    const parts = ['sandboxes', sandboxId, 'terminals', String(pid)];
    await checkResponse(await this.server.request(parts, { method: 'DELETE' }));
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
      this.serverInfo = info.ok ? await readJson<IServerInfo>(info) : this.serverInfo;
      const date = Date.parse(list.headers.get('Date') ?? '');
      // The header counts whole seconds, so a smaller difference means nothing.
      const skew = date - Date.now();
      this.skew = Math.abs(skew) > 2000 ? skew : 0;
      const { sandboxes } = await readJson<{ sandboxes: ISandbox[] }>(list);
      if (changes === this.changes) {
        this.known = [...sandboxes].sort((one, other) => Date.parse(other.startedAt) - Date.parse(one.startedAt));
      }
      this.failure = null;
    } catch (reason) {
      this.failure = reason;
      throw reason;
    } finally {
      this.changedSignal.emit();
    }
  }

  private post(parts: readonly string[], body: object): Promise<Response> {
    return this.server.request(parts, {
      method: 'POST',
      body: JSON.stringify(body),
      headers: JSON_BODY
    });
  }

  private async during<T>(sandboxId: string, kind: ActivityKind, work: () => Promise<T>): Promise<T> {
    this.activities.set(sandboxId, { kind, operation: null });
    this.changedSignal.emit();
    const told = TOLD[kind];
    const timer = told === undefined ? 0 : window.setInterval(() => void this.follow(sandboxId, told), PROGRESS_INTERVAL);
    try {
      const result = await work();
      this.changes += 1;
      return result;
    } finally {
      window.clearInterval(timer);
      this.activities.delete(sandboxId);
      this.changedSignal.emit();
      void this.refresh();
    }
  }

  /** Notes how far the work on a sandbox is; a deployment need not say. */
  private async follow(sandboxId: string, told: string): Promise<void> {
    const answer = await this.server.request(['sandboxes', sandboxId, 'operations']).catch(() => null);
    if (answer?.ok !== true) {
      return;
    }
    const { operations } = (await answer.json()) as { operations: IOperation[] };
    const activity = this.activities.get(sandboxId);
    const operation = operations.find(({ kind }) => kind === told) ?? null;
    if (activity !== undefined && TOLD[activity.kind] === told) {
      this.activities.set(sandboxId, { ...activity, operation });
      this.changedSignal.emit();
    }
  }

  private readonly poll: Poll;
  private readonly changedSignal = new Signal<this, void>(this);
  private readonly activities = new Map<string, IActivity>();
  private known: readonly ISandbox[] | null = null;
  private serverInfo: IServerInfo | null = null;
  private failure: unknown = null;
  private reading: Promise<void> | null = null;
  /** Counts what we changed, so that a list read before does not undo it on the screen. */
  private changes = 0;
  private creations = 0;
  private watchers = 0;
  private skew = 0;
}

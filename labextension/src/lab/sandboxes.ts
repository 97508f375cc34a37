import { Poll } from '@lumino/polling';
import type { ISignal } from '@lumino/signaling';
import { Signal } from '@lumino/signaling';

import type { IJupyterServer } from '../components/jupyterServer';
import type { AnswerOf } from '../components/sandboxApi';
import { SandboxApi } from '../components/sandboxApi';
import type { ServerState } from '../protocol/api';
import { ServerTransport } from '../components/serverTransport';
import type { SandboxState } from '../components/transport';
import type {
  IKernelPlace,
  INewSandbox,
  ISandbox,
  ISandboxSize,
  IServerInfo,
  ISnapshot,
  ITemplate
} from '../protocol/sandboxes';
import { errorFrom } from '../protocol/errors';
import type { IVolume } from '../protocol/storage';
import type { ActivityKind, IActivity } from './activities';
import { Activities } from './activities';
import type { IErrorDescription } from './errorDescription';
import { describeError } from './errorDescription';
import { arrange } from './sandboxList';
import type { ServerEvent } from './serverEvents';
import { ServerEvents } from './serverEvents';

const DEFAULT_INTERVAL = 5000;
/** The longest delay between two polls while the server does not answer, in milliseconds. */
const MAX_INTERVAL = 60_000;

/**
 * The model of the sandboxes of this server; lists them and changes them.
 *
 * While somebody watches, the server tells what changes; the list is polled while it does not.
 */
export class Sandboxes {
  constructor(readonly server: IJupyterServer) {
    this.api = new SandboxApi(server);
    this.poll = new Poll({
      auto: false,
      name: 'sbx-jupyter:sandboxes',
      factory: () => this.readOnce(),
      frequency: { interval: DEFAULT_INTERVAL, backoff: true, max: MAX_INTERVAL },
      standby: () => (this.watchers === 0 || (this.events.isLive && !this.isStuck) ? true : 'when-hidden')
    });
    this.activities = new Activities(this.api, () => { this.changedSignal.emit(); });
    this.events = new ServerEvents(this.api, event => { this.take(event); });
  }

  /** The routes of the server. */
  readonly api: SandboxApi;

  /** Emitted after the list, the server's information or an activity changed. */
  get changed(): ISignal<this, void> {
    return this.changedSignal;
  }

  /**
   * Emitted for the events `ports` and `changed` of the server, which name what to read again: the
   * ports of a sandbox; templates, snapshots, volumes, secrets.
   */
  get told(): ISignal<this, ServerEvent> {
    return this.toldSignal;
  }

  /** `null` until the first answer. */
  get items(): readonly ISandbox[] | null {
    return this.known;
  }

  /** The last information on the server, its engine and the isolation. */
  get info(): IServerInfo | null {
    return this.serverInfo;
  }

  /** Why the last listing failed; `null` if it succeeded. */
  get error(): IErrorDescription | null {
    return this.failure === null ? null : describeError(this.failure, this.serverInfo);
  }

  get creating(): number {
    return this.creations;
  }

  /** The server's time, in milliseconds: sandboxes end by its clock, and the browser's may be wrong. */
  now(): number {
    return Date.now() + this.skew;
  }

  activity(sandboxId: string): IActivity | undefined {
    return this.activities.get(sandboxId);
  }

  find(sandboxId: string): ISandbox | undefined {
    return this.known?.find(sandbox => sandbox.sandboxID === sandboxId);
  }

  /** The state of a sandbox, where it is known; one that is being paused is not to be woken, and counts as paused. */
  stateOf(sandboxId: string): SandboxState | null {
    if (this.activity(sandboxId)?.kind === 'pausing') {
      return 'paused';
    }
    const isListKnown = this.known !== null && this.failure === null;
    return this.find(sandboxId)?.state ?? (isListKnown ? 'ended' : null);
  }

  /** The sandbox that a kernel runs in. */
  sandboxOfKernel(kernelId: string): string | undefined {
    return this.kernels.find(({ kernelID }) => kernelID === kernelId)?.sandboxID;
  }

  /** Whether a kernel of this server runs in a sandbox. */
  hasKernel(sandboxId: string): boolean {
    return this.kernels.some(({ sandboxID }) => sandboxID === sandboxId);
  }

  transport(sandboxId: string): ServerTransport {
    return new ServerTransport(this.server, sandboxId);
  }

  setInterval(milliseconds: number): void {
    this.poll.frequency = { ...this.poll.frequency, interval: milliseconds };
  }

  /** Follows changes while there is at least one watcher; returns a function that removes this one. */
  watch(): () => void {
    this.watchers += 1;
    this.events.start();
    void this.poll.refresh();
    let looking = true;
    return () => {
      if (looking) {
        looking = false;
        this.watchers -= 1;
        if (this.watchers === 0) {
          this.events.stop();
        }
      }
    };
  }

  /** Lists the sandboxes now; a failure is in `error`. */
  async refresh(): Promise<void> {
    // Not by the poll, which pauses without watchers, and not by a request that is already under
    // way, whose answer may be too old.
    await this.reading?.catch(() => undefined);
    await this.readOnce().catch(() => undefined);
  }

  async create(request: INewSandbox): Promise<ISandbox> {
    this.creations += 1;
    this.changedSignal.emit();
    try {
      const sandbox = await this.api.post('/sandboxes', { body: request });
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
      await this.api.delete('/sandboxes/{sandbox_id}', { path: { sandbox_id: sandboxId } });
      this.known = this.known?.filter(item => item.sandboxID !== sandboxId) ?? null;
    });
  }

  pause(sandboxId: string): Promise<void> {
    return this.during(sandboxId, 'pausing', async () => {
      await this.api.post('/sandboxes/{sandbox_id}/pause', { path: { sandbox_id: sandboxId } });
      this.setState(sandboxId, 'paused');
    });
  }

  resume(sandboxId: string, timeout?: number): Promise<void> {
    const body = timeout === undefined ? {} : { timeout };
    return this.during(sandboxId, 'resuming', async () => {
      await this.api.post('/sandboxes/{sandbox_id}/connect', { path: { sandbox_id: sandboxId }, body });
      this.setState(sandboxId, 'running');
    });
  }

  /** Sets the timeout of the sandbox, in seconds from now. */
  setTimeout(sandboxId: string, timeout: number): Promise<void> {
    return this.during(sandboxId, 'extending', async () => {
      await this.api.post('/sandboxes/{sandbox_id}/timeout', { path: { sandbox_id: sandboxId }, body: { timeout } });
    });
  }

  /** Renames the sandbox; an empty name removes it. */
  rename(sandboxId: string, name: string): Promise<void> {
    return this.during(sandboxId, 'renaming', async () => {
      const renamed = await this.api.patch('/sandboxes/{sandbox_id}', { path: { sandbox_id: sandboxId }, body: { name } });
      this.known = this.known?.map(item => (item.sandboxID === sandboxId ? renamed : item)) ?? null;
    });
  }

  /** Takes a snapshot, from which sandboxes can be created. */
  snapshot(sandboxId: string, name?: string): Promise<ISnapshot> {
    const body = name === undefined ? {} : { name };
    return this.during(sandboxId, 'snapshotting', () =>
      this.api.post('/sandboxes/{sandbox_id}/snapshots', { path: { sandbox_id: sandboxId }, body })
    );
  }

  /** Starts a copy of the sandbox. */
  fork(sandboxId: string, name: string, timeout: number): Promise<ISandbox> {
    return this.during(sandboxId, 'forking', () =>
      this.api.post('/sandboxes/{sandbox_id}/fork', { path: { sandbox_id: sandboxId }, body: { name, timeout } })
    );
  }

  /** Starts a kernel in a sandbox for a notebook there; returns the kernel's id. */
  async startKernel(sandbox: string, kernel: string, path: string): Promise<string> {
    return (await this.api.post('/kernels', { body: { sandbox, kernel, path } })).kernelID;
  }

  /** Lets the page with a mark draw what a kernel sends, for some seconds from now; 0 ends it. */
  async letDraw(kernelId: string, mark: string, seconds: number): Promise<void> {
    await this.api.post('/kernels/{kernel_id}/drawing', { path: { kernel_id: kernelId }, body: { mark, seconds } });
  }

  /** Makes another sandbox for a kernel, which it gets at its next restart; says whether the files are in it. */
  async replaceSandbox(kernelId: string, size: ISandboxSize): Promise<boolean> {
    return (await this.api.post('/kernels/{kernel_id}/sandbox', { path: { kernel_id: kernelId }, body: size })).filesKept;
  }

  /** Cancels an operation; the request that started it fails. */
  async cancel(sandboxId: string, operationId: string): Promise<void> {
    const path = { sandbox_id: sandboxId, operation_id: operationId };
    await this.api.delete('/sandboxes/{sandbox_id}/operations/{operation_id}', { path });
  }

  /** Lists the templates and snapshots. */
  async templates(): Promise<readonly ITemplate[]> {
    return (await this.api.get('/templates')).templates;
  }

  /** Lists the volumes. */
  async volumes(): Promise<readonly IVolume[]> {
    return (await this.api.get('/volumes')).volumes;
  }

  async removeTemplate(templateId: string): Promise<void> {
    await this.api.delete('/templates/{template_id}', { path: { template_id: templateId } });
  }

  dispose(): void {
    this.poll.dispose();
    this.events.dispose();
    Signal.clearData(this);
  }

  /** Lists the sandboxes; joins a request that is already under way. */
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
        this.api.response('get', '/sandboxes'),
        this.api.get('/info').catch(() => this.serverInfo)
      ]);
      this.serverInfo = info;
      const date = Date.parse(list.headers.get('Date') ?? '');
      // The header has whole seconds, so smaller differences are ignored.
      const skew = date - Date.now();
      this.skew = Math.abs(skew) > 2000 ? skew : 0;
      const { sandboxes, kernels } = (await list.json()) as AnswerOf<'/sandboxes', 'get'>;
      this.kernels = kernels ?? [];
      if (changes === this.changes) {
        this.show(sandboxes);
      }
      this.fail(null);
    } catch (reason) {
      this.fail(reason);
      throw reason;
    } finally {
      this.changedSignal.emit();
    }
  }

  /** Takes over what the server tells. */
  private take(event: ServerEvent): void {
    this.changes += 1;
    this.apply(event);
    if (this.isStuck) {
      void this.refresh();
    }
  }

  private apply(event: ServerEvent): void {
    switch (event.name) {
      case 'state':
        this.takeState(event.data);
        break;
      case 'sandbox':
        this.show([event.data, ...this.without(event.data.sandboxID)]);
        break;
      case 'ended':
        this.show(this.without(event.data.sandboxID));
        break;
      case 'kernels':
        this.kernels = event.data;
        break;
      case 'info':
        this.serverInfo = event.data;
        break;
      case 'problem':
        this.fail(event.data === null ? null : errorFrom(event.data, ''), true);
        break;
      default:
        this.toldSignal.emit(event);
        return;
    }
    this.changedSignal.emit();
  }

  private takeState(state: ServerState): void {
    // With a problem the list is what was known before, which may be nothing.
    if (state.problem === undefined) {
      this.show(state.sandboxes);
    }
    this.kernels = state.kernels;
    this.serverInfo = state.info;
    this.fail(state.problem === undefined ? null : errorFrom(state.problem, ''), true);
  }

  private fail(reason: unknown, isTold = false): void {
    this.failure = reason;
    this.isTold = isTold;
  }

  /** Whether a request failed, of whose end the server does not tell: only another request can. */
  private get isStuck(): boolean {
    return this.failure !== null && !this.isTold;
  }

  /** Until the next list: a view that takes a paused sandbox for a running one asks it something, which wakes it. */
  private setState(sandboxId: string, state: ISandbox['state']): void {
    this.known = this.known?.map(item => (item.sandboxID === sandboxId ? { ...item, state } : item)) ?? null;
  }

  private without(sandboxId: string): readonly ISandbox[] {
    return this.known?.filter(item => item.sandboxID !== sandboxId) ?? [];
  }

  private show(listed: readonly ISandbox[]): void {
    this.known = arrange(listed, this.known ?? []);
  }

  private async during<T>(sandboxId: string, kind: ActivityKind, work: () => Promise<T>): Promise<T> {
    try {
      const result = await this.activities.during(sandboxId, kind, work);
      this.changes += 1;
      return result;
    } finally {
      this.changedSignal.emit();
      void this.refresh();
    }
  }

  private readonly poll: Poll;
  private readonly events: ServerEvents;
  private readonly activities: Activities;
  private readonly toldSignal = new Signal<this, ServerEvent>(this);
  private readonly changedSignal = new Signal<this, void>(this);
  private known: readonly ISandbox[] | null = null;
  private kernels: readonly IKernelPlace[] = [];
  private serverInfo: IServerInfo | null = null;
  private failure: unknown = null;
  /** Whether the server told of the failure, and will tell of its end. */
  private isTold = false;
  private reading: Promise<void> | null = null;
  /** Counts changes, so that a list requested before a change does not replace it. */
  private changes = 0;
  private creations = 0;
  private watchers = 0;
  private skew = 0;
}

import type { EventOf, SandboxApi } from '../components/sandboxApi';

/** The shortest and the longest pause before the next try, in milliseconds. */
const RETRY = 2000;
const MAX_RETRY = 60_000;

/** Milliseconds without a byte after which the connection counts as broken; the server sends some every 15 s. */
const SILENCE = 45_000;

/** One event of the route `events`. */
export type ServerEvent = EventOf<'/events', 'get'>;

/**
 * Follows the server-sent events of the server, and connects again when the connection breaks.
 *
 * Not by `EventSource`, which cannot send a token. Browsers allow few connections to a server, so a
 * page that is hidden holds none.
 */
export class ServerEvents {
  constructor(
    private readonly api: SandboxApi,
    private readonly onEvent: (event: ServerEvent) => void
  ) {
    document.addEventListener('visibilitychange', this.onVisibility);
  }

  /** Whether events arrive, so that nothing needs to be asked for. */
  get isLive(): boolean {
    return this.live;
  }

  start(): void {
    this.wanted = true;
    this.onVisibility();
  }

  stop(): void {
    this.wanted = false;
    this.disconnect();
  }

  dispose(): void {
    this.stop();
    document.removeEventListener('visibilitychange', this.onVisibility);
  }

  private readonly onVisibility = (): void => {
    if (document.hidden) {
      this.disconnect();
    } else if (this.wanted && this.connection === null) {
      void this.follow((this.connection = new AbortController()));
    }
  };

  private disconnect(): void {
    this.live = false;
    this.connection?.abort();
    this.connection = null;
  }

  private async follow(connection: AbortController): Promise<void> {
    let pause = RETRY;
    while (!connection.signal.aborted) {
      const began = this.lastId;
      await this.read(connection).catch(() => undefined);
      if (this.connection === connection) {
        this.live = false;
      }
      pause = began === this.lastId ? Math.min(2 * pause, MAX_RETRY) : RETRY;
      await sleep(pause, connection.signal);
    }
  }

  /** Reads events until the stream ends; rejects when there is none or it breaks. */
  private async read(connection: AbortController): Promise<void> {
    const broken = new AbortController();
    const abort = () => { broken.abort(); };
    connection.signal.addEventListener('abort', abort);
    let timer = window.setTimeout(abort, SILENCE);
    try {
      const headers = this.lastId === '' ? undefined : { 'Last-Event-ID': this.lastId };
      const onBytes = () => {
        window.clearTimeout(timer);
        timer = window.setTimeout(abort, SILENCE);
      };
      for await (const event of this.api.events('get', '/events', { headers, signal: broken.signal }, onBytes)) {
        if (connection.signal.aborted) {
          return;
        }
        this.take(event);
      }
    } finally {
      window.clearTimeout(timer);
      connection.signal.removeEventListener('abort', abort);
      broken.abort();
    }
  }

  private take({ id, ...event }: ServerEvent & { readonly id: string | null }): void {
    this.lastId = id ?? this.lastId;
    this.live = true;
    this.onEvent(event);
  }

  private connection: AbortController | null = null;
  private wanted = false;
  private live = false;
  private lastId = '';
}

function sleep(milliseconds: number, signal: AbortSignal): Promise<void> {
  return new Promise(resolve => {
    const timer = window.setTimeout(resolve, milliseconds);
    signal.addEventListener('abort', () => {
      window.clearTimeout(timer);
      resolve();
    });
  });
}

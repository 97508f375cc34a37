import type { IJupyterServer } from '../components/jupyterServer';

/** The shortest and the longest pause before the next try, in milliseconds. */
const RETRY = 2000;
const MAX_RETRY = 60_000;

/** Milliseconds without a byte after which the connection counts as broken; the server sends some every 15 s. */
const SILENCE = 45_000;

/** One event of the route `events`. */
export interface IServerEvent {
  readonly name: string;
  readonly data: unknown;
}

/**
 * Follows the server-sent events of the server, and connects again when the connection breaks.
 *
 * Not by `EventSource`, which cannot send a token. Browsers allow few connections to a server, so a
 * page that is hidden holds none.
 */
export class ServerEvents {
  constructor(
    private readonly server: IJupyterServer,
    private readonly onEvent: (event: IServerEvent) => void
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
      const response = await this.server.request(['events'], { headers, signal: broken.signal });
      const isStream = response.headers.get('Content-Type')?.startsWith('text/event-stream') === true;
      if (!response.ok || !isStream || response.body === null) {
        throw new Error(`no events: ${response.status}`);
      }
      const reader = response.body.getReader();
      const decoder = new TextDecoder();
      let text = '';
      for (let part = await reader.read(); !part.done; part = await reader.read()) {
        window.clearTimeout(timer);
        timer = window.setTimeout(abort, SILENCE);
        text += decoder.decode(part.value, { stream: true });
        const blocks = text.split('\n\n');
        text = blocks.pop() ?? '';
        if (connection.signal.aborted) {
          return;
        }
        blocks.forEach(block => { this.take(block); });
      }
    } finally {
      window.clearTimeout(timer);
      connection.signal.removeEventListener('abort', abort);
      broken.abort();
    }
  }

  private take(block: string): void {
    const fields = new Map<string, string>();
    for (const line of block.split('\n')) {
      const colon = line.indexOf(': ');
      if (colon > 0) {
        fields.set(line.slice(0, colon), line.slice(colon + 2));
      }
    }
    const name = fields.get('event');
    const data = fields.get('data');
    if (name !== undefined && data !== undefined) {
      this.lastId = fields.get('id') ?? this.lastId;
      this.live = true;
      this.onEvent({ name, data: JSON.parse(data) as unknown });
    }
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

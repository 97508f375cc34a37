import type { ServerConnection, Terminal } from '@jupyterlab/services';
import type { ISignal } from '@lumino/signaling';
import { Signal } from '@lumino/signaling';

import { trans } from '../components/language';
import type { ISandboxTransport, ITerminalChannel } from '../components/transport';
import type { SandboxError } from '../protocol/errors';
import type { ITerminalExit, ITerminalSize } from '../protocol/terminal';

/** Milliseconds before the nth try to reach a lost terminal; the last one repeats. */
const RETRIES = [250, 500, 1000, 2000, 4000, 8000];
/** Codes after which trying again is pointless. */
const FINAL = new Set(['not_found', 'permission_denied', 'invalid_argument', 'unauthenticated', 'failed_precondition']);
/** What a terminal emulator answers to queries in its output, never what a person types. */
// eslint-disable-next-line no-control-regex
const ANSWER = /^\x1b(\[[?>=]?[\d;]*[Rcnty]|P|\])/;

export interface ITerminalOptions {
  readonly name: string;
  readonly sandboxId: string;
  readonly pid?: number;
  /** How many bytes the page that is restored had shown. */
  readonly since?: number;
}

/** Presents a sandbox terminal to JupyterLab's terminal widget; survives a lost connection. */
export class TerminalConnection implements Terminal.ITerminalConnection {
  constructor(
    private readonly transport: ISandboxTransport,
    readonly serverSettings: ServerConnection.ISettings,
    private readonly options: ITerminalOptions
  ) {
    this.name = options.name;
    this.pid = options.pid;
    this.replayedUntil = options.since ?? 0;
  }

  get model(): Terminal.IModel {
    return { name: this.name };
  }

  get connectionStatus(): Terminal.ConnectionStatus {
    return this.status;
  }

  get messageReceived(): ISignal<this, Terminal.IMessage> {
    return this.received;
  }

  get connectionStatusChanged(): ISignal<this, Terminal.ConnectionStatus> {
    return this.statusChanged;
  }

  get disposed(): ISignal<this, void> {
    return this.closed;
  }

  get isDisposed(): boolean {
    return this.gone;
  }

  /** Emitted when the process is known or more output was shown. */
  get advanced(): ISignal<this, void> {
    return this.advancedSignal;
  }

  /** Why there is no connection, for people; `null` while all is well. */
  get problem(): string | null {
    return this.trouble;
  }

  /** What a later page needs to show this terminal again. */
  get place(): { sandbox: string; pid?: number; since: number } {
    return { sandbox: this.options.sandboxId, pid: this.pid, since: this.seen };
  }

  send(message: Terminal.IMessage): void {
    const [first = '', second = ''] = message.content ?? [];
    if (message.type === 'set_size') {
      this.resize({ rows: Number(first), cols: Number(second) });
    } else if (message.type === 'stdin' && !this.isEchoOfReplay(String(first))) {
      this.channel?.send(this.encoder.encode(String(first)));
    }
  }

  async reconnect(): Promise<void> {
    this.channel?.dispose();
    this.tries = 0;
    this.open();
    return Promise.resolve();
  }

  /** Leaves the process running, as closing a tab does; it can be reopened and ends with its shell. */
  async shutdown(): Promise<void> {
    this.dispose();
    return Promise.resolve();
  }

  dispose(): void {
    if (this.gone) {
      return;
    }
    this.gone = true;
    window.clearTimeout(this.timer);
    this.channel?.dispose();
    this.closed.emit();
    Signal.clearData(this);
  }

  /** The first size is what opens the terminal, so that the shell starts with the right one. */
  private resize(size: ITerminalSize): void {
    if (size.cols < 1 || size.rows < 1) {
      return;
    }
    this.size = size;
    if (this.channel !== null) {
      this.channel.resize(size.cols, size.rows);
    } else if (!this.opened) {
      this.open();
    }
  }

  private open(): void {
    window.clearTimeout(this.timer);
    this.opened = true;
    this.decoder = new TextDecoder();
    this.setStatus('connecting', this.trouble);
    const again = this.pid === undefined ? {} : { pid: this.pid, since: this.seen };
    this.channel = this.transport.openTerminal(
      { ...this.size, ...again },
      {
        onStart: ({ pid, sequence }) => {
          this.pid = pid;
          this.seen = sequence;
          this.tries = 0;
          this.setStatus('connected', null);
          this.advancedSignal.emit();
        },
        onData: (data, sequence) => {
          this.seen = sequence + data.length;
          this.lastReplay = this.seen <= this.replayedUntil ? Date.now() : this.lastReplay;
          this.received.emit({ type: 'stdout', content: [this.decoder.decode(data, { stream: true })] });
          this.advancedSignal.emit();
        },
        onExit: exit => {
          this.onExit(exit);
        },
        onClose: reason => {
          this.onLost(reason);
        }
      }
    );
  }

  private onExit(exit: ITerminalExit): void {
    this.channel = null;
    this.ended = true;
    this.received.emit({ type: 'disconnect', content: [] });
    this.setStatus('disconnected', trans.__('The shell ended with code %1.', exit.code));
  }

  private onLost(reason: SandboxError | null): void {
    this.channel = null;
    if (this.gone) {
      return;
    }
    if (reason !== null && FINAL.has(reason.code)) {
      this.ended = true;
      this.setStatus('disconnected', reason.message);
      return;
    }
    const delay = RETRIES[Math.min(this.tries, RETRIES.length - 1)] ?? 0;
    this.tries += 1;
    this.setStatus('disconnected', trans.__('The connection to the terminal is lost. Trying again…'));
    this.timer = window.setTimeout(() => {
      this.open();
    }, delay);
  }

  /** Whether there is nothing to connect to any more. */
  get isOver(): boolean {
    return this.ended;
  }

  /** Old output may hold queries; answering them again would type the answers into the shell. */
  private isEchoOfReplay(text: string): boolean {
    const replaying = this.seen < this.replayedUntil || Date.now() - this.lastReplay < 500;
    return replaying && ANSWER.test(text);
  }

  private setStatus(status: Terminal.ConnectionStatus, trouble: string | null): void {
    const changed = this.status !== status || this.trouble !== trouble;
    this.status = status;
    this.trouble = trouble;
    if (changed) {
      this.statusChanged.emit(status);
    }
  }

  readonly name: string;
  private readonly received = new Signal<this, Terminal.IMessage>(this);
  private readonly statusChanged = new Signal<this, Terminal.ConnectionStatus>(this);
  private readonly closed = new Signal<this, void>(this);
  private readonly advancedSignal = new Signal<this, void>(this);
  private readonly encoder = new TextEncoder();
  private readonly replayedUntil: number;
  private decoder = new TextDecoder();
  private channel: ITerminalChannel | null = null;
  private status: Terminal.ConnectionStatus = 'connecting';
  private trouble: string | null = null;
  private size: ITerminalSize = { cols: 80, rows: 24 };
  private pid: number | undefined;
  private seen = 0;
  private lastReplay = 0;
  private tries = 0;
  private timer = 0;
  private opened = false;
  private ended = false;
  private gone = false;
}

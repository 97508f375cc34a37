import type { ServerConnection, Terminal } from '@jupyterlab/services';
import type { ISignal } from '@lumino/signaling';
import { Signal } from '@lumino/signaling';

import type { TerminalRemedy, TerminalState } from '../../components/terminals/terminalSession';
import { TerminalSession } from '../../components/terminals/terminalSession';
import type { ISandboxTransport, SandboxState } from '../../components/transport';
import type { ITerminalShown } from '../../protocol/terminal';

const STATUS: Readonly<Record<TerminalState, Terminal.ConnectionStatus>> = {
  idle: 'connecting',
  connecting: 'connecting',
  connected: 'connected',
  waiting: 'disconnected',
  ended: 'disconnected'
};

export interface ITerminalOptions {
  readonly name: string;
  readonly sandboxId: string;
  readonly pid?: number;
  /** Bytes of output that the restored page had shown. */
  readonly since?: number;
  /** The directory in which a new shell starts. */
  readonly cwd?: string;
  readonly isReadOnly?: boolean;
}

/** Presents a terminal session to JupyterLab's terminal widget. */
export class TerminalConnection implements Terminal.ITerminalConnection {
  constructor(
    transport: ISandboxTransport,
    readonly serverSettings: ServerConnection.ISettings,
    private readonly options: ITerminalOptions
  ) {
    this.name = options.name;
    this.session = new TerminalSession(
      transport,
      {
        onData: data => {
          this.received.emit({ type: 'stdout', content: [this.decoder.decode(data, { stream: true })] });
          this.advancedSignal.emit();
        },
        onGap: () => {
          this.decoder = new TextDecoder();
        },
        onShown: shown => {
          this.currentShown = shown;
          this.shownSignal.emit(shown);
        },
        onExit: () => {
          this.received.emit({ type: 'disconnect', content: [] });
        },
        onChange: () => {
          this.statusChanged.emit(this.connectionStatus);
          if (this.session.state === 'connected') {
            this.advancedSignal.emit();
          }
        }
      },
      { pid: options.pid, shownBefore: options.since, cwd: options.cwd, isReadOnly: options.isReadOnly }
    );
  }

  get model(): Terminal.IModel {
    return { name: this.name };
  }

  get connectionStatus(): Terminal.ConnectionStatus {
    return STATUS[this.session.state];
  }

  get messageReceived(): ISignal<this, Terminal.IMessage> {
    return this.received;
  }

  get connectionStatusChanged(): ISignal<this, Terminal.ConnectionStatus> {
    return this.statusChanged;
  }

  get disposed(): ISignal<this, void> {
    return this.disposedSignal;
  }

  get isDisposed(): boolean {
    return this.hasBeenDisposed;
  }

  /** Emitted when the process is known or more output was shown. */
  get advanced(): ISignal<this, void> {
    return this.advancedSignal;
  }

  /** Emitted when the name of the terminal, or who looks at it, has changed. */
  get shownChanged(): ISignal<this, ITerminalShown> {
    return this.shownSignal;
  }

  /** The name of the terminal and who looks at it. */
  get shown(): ITerminalShown {
    return this.currentShown;
  }

  get sandboxId(): string {
    return this.options.sandboxId;
  }

  /** The process in the terminal, once it is known. */
  get pid(): number | undefined {
    return this.session.pid;
  }

  /** Why the terminal cannot be used, in words for people; `null` while it can. */
  get message(): string | null {
    return this.session.message;
  }

  /** The remedy for what the message says. */
  get remedy(): TerminalRemedy {
    return this.session.remedy;
  }

  /** Whether the shell has exited or cannot be reached any more. */
  get hasEnded(): boolean {
    return this.session.state === 'ended';
  }

  /** The arguments with which a later page restores this terminal. */
  get restoreArgs(): { sandbox: string; pid?: number; since: number; readOnly?: true } {
    const readOnly = this.isReadOnly ? { readOnly: true as const } : {};
    return { sandbox: this.sandboxId, pid: this.pid, since: this.session.sequence, ...readOnly };
  }

  /** Whether this view takes no keys. */
  get isReadOnly(): boolean {
    return this.options.isReadOnly === true;
  }

  send(message: Terminal.IMessage): void {
    const [first = '', second = ''] = message.content ?? [];
    if (message.type === 'set_size') {
      this.session.resize({ rows: Number(first), cols: Number(second) });
    } else if (message.type === 'stdin') {
      this.session.sendText(String(first));
    }
  }

  /** Takes over what is known of the sandbox. */
  setSandboxState(state: SandboxState): void {
    this.session.setSandboxState(state);
  }

  async reconnect(): Promise<void> {
    this.session.reconnect();
    return Promise.resolve();
  }

  /** Leaves the process running, as closing a tab does; it can be reopened and ends with its shell. */
  async shutdown(): Promise<void> {
    this.dispose();
    return Promise.resolve();
  }

  dispose(): void {
    if (this.hasBeenDisposed) {
      return;
    }
    this.hasBeenDisposed = true;
    this.session.dispose();
    this.disposedSignal.emit();
    Signal.clearData(this);
  }

  readonly name: string;
  private readonly session: TerminalSession;
  private readonly received = new Signal<this, Terminal.IMessage>(this);
  private readonly statusChanged = new Signal<this, Terminal.ConnectionStatus>(this);
  private readonly disposedSignal = new Signal<this, void>(this);
  private readonly advancedSignal = new Signal<this, void>(this);
  private readonly shownSignal = new Signal<this, ITerminalShown>(this);
  private currentShown: ITerminalShown = { name: '', viewers: [] };
  private decoder = new TextDecoder();
  private hasBeenDisposed = false;
}

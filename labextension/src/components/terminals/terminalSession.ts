import type { SandboxError } from '../../protocol/errors';
import { isFinal } from '../../protocol/errors';
import type { ITerminalExit, ITerminalRequest, ITerminalShown, ITerminalSize } from '../../protocol/terminal';
import { trans } from '../translation';
import type { ISandboxTransport, ITerminalChannel, SandboxState } from '../transport';

/** Milliseconds before the nth attempt to reconnect; the last delay repeats. */
const RETRY_DELAYS = [250, 500, 1000, 2000, 4000, 8000];
/** How long xterm.js may take to answer queries in output that was just replayed, in milliseconds. */
const REPLAY_GRACE = 500;
/** How long a replay of unknown length may take, in milliseconds. */
const REPLAY_TIME = 1000;
/** Answers of a terminal emulator to queries in its output; nobody types these. */
// eslint-disable-next-line no-control-regex
const QUERY_ANSWER = /^\x1b(\[[?>=]?[\d;]*[Rcnty]|P|\])/;

/**
 * The states of a session.
 *
 *     idle --> connecting --> connected --> ended
 *                  ^  |           |           ^
 *                  |  +-----------|-----------+   the shell exited, or a final error
 *                  |  v           v
 *                  waiting for the next attempt
 */
export type TerminalState = 'idle' | 'connecting' | 'connected' | 'waiting' | 'ended';

/** The remedy for a terminal that cannot be used: try again, start another shell, resume the sandbox, or none. */
export type TerminalRemedy = 'reconnect' | 'restart' | 'resume' | 'none';

export interface ITerminalSessionOptions {
  /** The process to attach to; a new shell is started without it. */
  readonly pid?: number | null;
  /** Bytes of output that an earlier page had shown; left out where unknown. */
  readonly shownBefore?: number;
  /** The directory in which a new shell starts. */
  readonly cwd?: string;
  /** Only shows the terminal: sends no keys, and leaves its size to the other views. */
  readonly isReadOnly?: boolean;
}

/** Shows what a session receives. */
export interface ITerminalSessionListener {
  /** Takes the next bytes of output. */
  onData(data: Uint8Array): void;
  /** The output that follows does not continue what was shown. */
  onGap?(): void;
  /** The state, the message or the pid changed. */
  onChange(): void;
  /** The name of the terminal, or who looks at it, has changed. */
  onShown?(shown: ITerminalShown): void;
  /** The shell exited; called before the state changes to `ended`. */
  onExit?(exit: ITerminalExit): void;
}

/**
 * One terminal of a sandbox as a screen shows it.
 *
 * Connects when the size of the screen is known. After a lost connection it attaches to the same
 * process again, from the first byte that was not shown. It stops when the shell exits or when an
 * error is final, and makes no attempt while the sandbox is paused, which an attempt may wake.
 */
export class TerminalSession {
  constructor(
    private readonly transport: ISandboxTransport,
    private readonly listener: ITerminalSessionListener,
    private readonly options: ITerminalSessionOptions = {}
  ) {
    this.currentPid = options.pid ?? undefined;
    this.shownBefore = options.shownBefore ?? 0;
    this.isReplayUnbounded = this.currentPid !== undefined && options.shownBefore === undefined;
  }

  get state(): TerminalState {
    return this.currentState;
  }

  /** Why the terminal cannot be used, in words for people; `null` while it can. */
  get message(): string | null {
    return this.isHeld ? trans.__('The sandbox is paused.') : this.currentMessage;
  }

  /** The remedy for what the message says. */
  get remedy(): TerminalRemedy {
    return this.isHeld ? 'resume' : this.hasExited ? 'restart' : this.isGone ? 'none' : 'reconnect';
  }

  /** The process in the terminal, once it is known. */
  get pid(): number | undefined {
    return this.currentPid;
  }

  /** The sequence number of the next byte to show. */
  get sequence(): number {
    return this.nextSequence;
  }

  /** Sets the size of the screen; the first size opens the terminal, so that the shell starts with it. */
  resize({ cols, rows }: ITerminalSize): void {
    if (cols < 1 || rows < 1 || this.isDisposed) {
      return;
    }
    this.size = { cols, rows };
    if (this.channel !== null && !this.options.isReadOnly) {
      this.channel.resize(cols, rows);
    } else if (this.currentState === 'idle') {
      this.connect();
    }
  }

  /** Sends typed text. Answers to queries in replayed output are left out: the shell would run them. */
  sendText(text: string): void {
    if (!(this.isReplaying() && QUERY_ANSWER.test(text))) {
      this.sendBytes(this.encoder.encode(text));
    }
  }

  /** Sends bytes; without a connection they are dropped. */
  sendBytes(data: Uint8Array): void {
    if (!this.options.isReadOnly) {
      this.channel?.send(data);
    }
  }

  /** Connects again now, also after a final error; does nothing once the shell has exited. */
  reconnect(): void {
    if (this.isDisposed || this.hasExited) {
      return;
    }
    this.channel?.dispose();
    this.attempts = 0;
    this.connect();
  }

  /** Takes over what is known of the sandbox: connects again once when it is not paused any more. */
  setSandboxState(state: SandboxState): void {
    const isPaused = state === 'paused';
    if (this.isDisposed || this.isPaused === isPaused) {
      return;
    }
    this.isPaused = isPaused;
    window.clearTimeout(this.timer);
    this.wasPaused = state === 'running';
    if (!isPaused && this.currentState !== 'idle') {
      this.reconnect();
    } else if (isPaused && this.currentState === 'ended' && !this.hasExited) {
      // The last attempt was refused for the pause.
      this.currentState = 'waiting';
    }
    this.listener.onChange();
  }

  /** Leaves the terminal; the process goes on. */
  dispose(): void {
    this.isDisposed = true;
    window.clearTimeout(this.timer);
    this.channel?.dispose();
    this.channel = null;
  }

  private connect(): void {
    window.clearTimeout(this.timer);
    this.change('connecting', this.currentMessage);
    this.channel = this.transport.openTerminal(
      this.request(),
      {
        onStart: ({ pid, sequence }) => {
          this.onStart(pid, sequence);
        },
        onData: (data, sequence) => {
          this.onData(data, sequence);
        },
        onShown: shown => {
          this.listener.onShown?.(shown);
        },
        onExit: exit => {
          this.channel = null;
          this.hasExited = true;
          this.listener.onExit?.(exit);
          this.change('ended', trans.__('The shell ended with code %1.', exit.code));
        },
        onClose: reason => {
          this.onClose(reason);
        }
      }
    );
  }

  private request(): ITerminalRequest {
    const { isReadOnly, cwd } = this.options;
    const size = isReadOnly ? {} : this.size;
    return this.currentPid === undefined
      ? { ...this.size, ...(cwd === undefined ? {} : { cwd }) }
      : { ...size, pid: this.currentPid, since: this.nextSequence, ...(isReadOnly === true ? { readOnly: 'true' as const } : {}) };
  }

  private onStart(pid: number, sequence: number): void {
    this.currentPid = pid;
    this.attempts = 0;
    this.isPaused = this.wasPaused = this.isGone = false;
    if (this.isReplayUnbounded) {
      this.isReplayUnbounded = false;
      this.replayEnd = Date.now() + REPLAY_TIME;
    }
    this.moveTo(sequence);
    this.change('connected', null);
  }

  private onData(data: Uint8Array, sequence: number): void {
    this.moveTo(sequence);
    this.nextSequence += data.length;
    if (this.nextSequence <= this.shownBefore) {
      this.replayEnd = Date.now() + REPLAY_GRACE;
    }
    this.listener.onData(data);
  }

  /** Continues at `sequence`; the server skips output that it no longer has. */
  private moveTo(sequence: number): void {
    if (sequence !== this.nextSequence) {
      this.nextSequence = sequence;
      this.listener.onGap?.();
    }
  }

  private onClose(reason: SandboxError | null): void {
    this.channel = null;
    if (this.isDisposed) {
      return;
    }
    this.isGone = reason?.code === 'not_found';
    if (this.isPaused) {
      this.change('waiting', this.currentMessage);
      return;
    }
    if (this.isGone && this.wasPaused && this.currentPid !== undefined) {
      // Only the files outlast a pause without the memory.
      this.hasExited = true;
      this.change('ended', trans.__('The shell ended when the sandbox was paused.'));
      return;
    }
    if (reason !== null && isFinal(reason)) {
      this.change('ended', reason.message);
      return;
    }
    const delay = RETRY_DELAYS[Math.min(this.attempts, RETRY_DELAYS.length - 1)];
    this.attempts += 1;
    this.change('waiting', trans.__('The connection to the terminal is lost. Trying again…'));
    this.timer = window.setTimeout(() => {
      this.connect();
    }, delay);
  }

  /** Whether a terminal that could go on waits for its sandbox to be resumed. */
  private get isHeld(): boolean {
    return this.isPaused && !this.hasExited;
  }

  private isReplaying(): boolean {
    return this.nextSequence < this.shownBefore || Date.now() < this.replayEnd;
  }

  private change(state: TerminalState, message: string | null): void {
    if (this.currentState !== state || this.currentMessage !== message) {
      this.currentState = state;
      this.currentMessage = message;
      this.listener.onChange();
    }
  }

  private readonly encoder = new TextEncoder();
  private readonly shownBefore: number;
  private channel: ITerminalChannel | null = null;
  private size: ITerminalSize = { cols: 80, rows: 24 };
  private currentState: TerminalState = 'idle';
  private currentMessage: string | null = null;
  private currentPid: number | undefined;
  private nextSequence = 0;
  private isReplayUnbounded: boolean;
  private replayEnd = 0;
  private attempts = 0;
  private timer = 0;
  private hasExited = false;
  private isGone = false;
  private isPaused = false;
  /** Whether the sandbox was resumed, and the terminal not yet connected to it. */
  private wasPaused = false;
  private isDisposed = false;
}

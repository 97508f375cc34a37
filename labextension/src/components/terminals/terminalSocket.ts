import { errorFrom, SandboxError } from '../../protocol/errors';
import type { ServerFrame } from '../../protocol/terminal';
import { trans } from '../translation';
import type { ITerminalChannel, ITerminalListener } from '../transport';

/** Milliseconds before received output is acknowledged. */
const ACK_DELAY = 50;
/** The most messages that are queued before the socket is open. */
const MAX_QUEUED = 1000;

/** Exchanges the frames of a terminal over a WebSocket that is opening. */
export function openTerminalSocket(socket: WebSocket, listener: ITerminalListener): ITerminalChannel {
  return new TerminalSocket(socket, listener);
}

class TerminalSocket implements ITerminalChannel {
  constructor(
    private readonly socket: WebSocket,
    private readonly listener: ITerminalListener
  ) {
    socket.binaryType = 'arraybuffer';
    socket.addEventListener('open', this.onOpen);
    socket.addEventListener('message', this.onMessage);
    socket.addEventListener('close', this.onClose);
  }

  send(data: Uint8Array): void {
    this.post(new Uint8Array(data));
  }

  resize(cols: number, rows: number): void {
    this.post(JSON.stringify({ resize: { cols, rows } }));
  }

  dispose(): void {
    this.isClosed = true;
    this.queue.length = 0;
    this.socket.close();
  }

  private post(message: string | Uint8Array<ArrayBuffer>): void {
    if (this.socket.readyState === WebSocket.OPEN) {
      this.socket.send(message);
    } else if (this.socket.readyState === WebSocket.CONNECTING && this.queue.length < MAX_QUEUED) {
      this.queue.push(message);
    }
  }

  private readonly onOpen = (): void => {
    for (const message of this.queue.splice(0)) {
      this.socket.send(message);
    }
  };

  private readonly onMessage = (event: MessageEvent): void => {
    if (this.isClosed) {
      return;
    }
    if (event.data instanceof ArrayBuffer) {
      const data = new Uint8Array(event.data);
      this.listener.onData(data, this.sequence);
      this.sequence += data.length;
      this.received += data.length;
      this.ackTimer ??= window.setTimeout(this.acknowledge, ACK_DELAY);
    } else {
      this.onFrame(JSON.parse(String(event.data)) as ServerFrame);
    }
  };

  /** The server sends at most one window beyond this, so that fast output cannot fill the page's memory. */
  private readonly acknowledge = (): void => {
    this.ackTimer = null;
    if (!this.isClosed) {
      this.post(JSON.stringify({ ack: this.received }));
    }
  };

  private onFrame(frame: ServerFrame): void {
    if ('exit' in frame) {
      this.isClosed = true;
      this.listener.onExit(frame.exit);
    } else if ('error' in frame) {
      this.isClosed = true;
      this.listener.onClose(errorFrom(frame.error, trans.__('The terminal failed.')));
    } else if ('viewers' in frame) {
      this.listener.onShown?.(frame);
    } else {
      this.sequence = frame.sequence;
      this.listener.onStart?.(frame);
    }
  }

  private readonly onClose = (event: CloseEvent): void => {
    if (!this.isClosed) {
      this.isClosed = true;
      const said = event.reason === '' ? null : new SandboxError('unavailable', event.reason);
      this.listener.onClose(said);
    }
  };

  private readonly queue: (string | Uint8Array<ArrayBuffer>)[] = [];
  private ackTimer: number | null = null;
  private received = 0;
  private sequence = 0;
  private isClosed = false;
}

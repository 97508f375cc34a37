import type { IBuffers, IFromFrame, IJson, IToFrame } from '../../protocol/widgetFrames';
import { parseModelId } from '../../protocol/widgetFrames';
import { Allowance } from './allowance';
import { isJson } from './widgetStates';

/** Messages of a frame in a second, and at once. */
const MESSAGES = [200, 1000] as const;

/** Characters and bytes of a frame's messages in a second, and at once: a file may be among them. */
const SIZE = [8 * 1024 * 1024, 64 * 1024 * 1024] as const;

/** Messages that a frame may leave untaken before it counts as hanging. */
const MAX_WAITING = 2000;

/** The requests of a frame to the kernel's widgets. */
export interface IFrameRequests {
  get(id: string): void;
  send(id: string, message: IJson, buffers: IBuffers, number: number): void;
  height(height: number): void;
  /** The frame broke a rule; nothing of it is heard any more. */
  stopped(reason: 'too much' | 'hanging'): void;
}

/** One end of the port to a frame, whose other end hostile code has. */
export class FramePort {
  constructor(
    private readonly port: Pick<MessagePort, 'postMessage' | 'close' | 'onmessage'>,
    private readonly requests: IFrameRequests
  ) {
    port.onmessage = event => {
      this.receive(event.data);
    };
  }

  /** Sends a message, unless the frame has stopped. */
  post(message: IToFrame): void {
    if (this.isClosed) {
      return;
    }
    if (++this.sent - this.taken > MAX_WAITING) {
      this.stop('hanging');
      return;
    }
    this.port.postMessage(message);
  }

  close(): void {
    this.isClosed = true;
    this.port.onmessage = null;
    this.port.close();
  }

  private receive(value: unknown): void {
    if (this.isClosed) {
      return;
    }
    const parsed = parseFromFrame(value);
    const size = parsed === undefined ? 0 : parsed.size;
    if (!this.messages.take(parsed?.message.type === 'taken' ? 0.1 : 1) || !this.sizes.take(size)) {
      this.stop('too much');
    } else if (parsed !== undefined) {
      this.dispatch(parsed.message);
    }
  }

  private dispatch(message: IFromFrame): void {
    if (message.type === 'get') {
      this.requests.get(message.id);
    } else if (message.type === 'send') {
      this.requests.send(message.id, message.message, message.buffers, message.number);
    } else if (message.type === 'height') {
      this.requests.height(message.height);
    } else {
      this.taken = Math.min(this.sent, message.count);
    }
  }

  private stop(reason: 'too much' | 'hanging'): void {
    this.close();
    this.requests.stopped(reason);
  }

  private isClosed = false;
  private sent = 0;
  private taken = 0;
  private readonly messages = new Allowance(...MESSAGES);
  private readonly sizes = new Allowance(...SIZE);
}

/** Reads a message of a frame, and says how large it is; `undefined` for anything that is not one. */
export function parseFromFrame(value: unknown): { readonly message: IFromFrame; readonly size: number } | undefined {
  if (!isJson(value)) {
    return undefined;
  }
  const { type, id, height, count, number } = value;
  const modelId = parseModelId(id);
  if (type === 'get' && modelId !== undefined) {
    return { message: { type, id: modelId }, size: 0 };
  }
  if (type === 'height' && isCount(height)) {
    return { message: { type, height }, size: 0 };
  }
  if (type === 'taken' && isCount(count)) {
    return { message: { type, count }, size: 0 };
  }
  const copied = type === 'send' ? copyJson(value['message']) : undefined;
  if (type !== 'send' || modelId === undefined || !isCount(number) || copied === undefined) {
    return undefined;
  }
  const buffers = Array.isArray(value['buffers']) ? value['buffers'].filter(isBuffer) : [];
  const size = buffers.reduce((total, buffer) => total + buffer.byteLength, copied.size);
  return { message: { type, id: modelId, message: copied.value, buffers, number }, size };
}

/** A copy that holds nothing but JSON; `undefined` for what JSON cannot say. */
function copyJson(value: unknown): { readonly value: IJson; readonly size: number } | undefined {
  try {
    const text = JSON.stringify(value);
    const copy: unknown = JSON.parse(text);
    return isJson(copy) ? { value: copy, size: text.length } : undefined;
  } catch {
    // Circles, big integers: the frame made this message itself.
    return undefined;
  }
}

function isCount(value: unknown): value is number {
  return typeof value === 'number' && Number.isSafeInteger(value) && value >= 0;
}

function isBuffer(value: unknown): value is ArrayBuffer | ArrayBufferView {
  return value instanceof ArrayBuffer || ArrayBuffer.isView(value);
}

import type { ISessionContext } from '@jupyterlab/apputils';
import type { Kernel } from '@jupyterlab/services';
import { KernelMessage } from '@jupyterlab/services';
import { PromiseDelegate } from '@lumino/coreutils';

import type { IBuffers, IJson, IToFrame } from '../../protocol/widgetFrames';
import { parseModelId, TUNNEL } from '../../protocol/widgetFrames';
import { CapturedOutputs, isOutput } from './capturedOutputs';
import { isJson, WidgetStates } from './widgetStates';

/** Milliseconds for which outputs are gathered before they are sent to the frames. */
const GATHER_MS = 50;

/** Widgets that are asked for and that the kernel has not told of. */
const MAX_WAITING = 10_000;

/** A frame that draws widgets of the kernel. */
export interface IWidgetFrame {
  post(message: IToFrame): void;
  /** The kernel, and with it all that the frame shows, has gone. */
  kernelGone(): void;
}

/** A message that a frame sent, by the id that it has on its way to the kernel. */
interface ISent {
  readonly frame: IWidgetFrame;
  readonly number: number;
}

/** The session from which messages of a notebook's kernel come. */
export type IWidgetSession = Pick<ISessionContext, 'iopubMessage' | 'kernelChanged' | 'statusChanged' | 'session'>;

/**
 * Joins the widgets of one notebook's kernel and the frames that draw them.
 *
 * A frame reaches widgets of this kernel only, of those only the ones that it asked for by their ids, and
 * can do no more than send them messages.
 */
export class WidgetBridge {
  constructor(private readonly session: IWidgetSession) {
    session.iopubMessage.connect(this.onMessage);
    session.kernelChanged.connect(this.onKernelChanged);
    session.statusChanged.connect(this.onStatus);
  }

  get isDisposed(): boolean {
    return this.hasBeenDisposed;
  }

  /** Stops listening to the kernel, which may outlive this view of its notebook. */
  dispose(): void {
    if (!this.hasBeenDisposed) {
      this.hasBeenDisposed = true;
      this.session.iopubMessage.disconnect(this.onMessage);
      this.session.kernelChanged.disconnect(this.onKernelChanged);
      this.session.statusChanged.disconnect(this.onStatus);
      this.onKernelGone();
    }
  }

  /** Resolves when the state of a widget is known; asks the kernel for it, which may have been there before the page. */
  known(id: string): Promise<void> {
    if (this.states.has(id)) {
      return Promise.resolve();
    }
    let waiting = this.waiting.get(id);
    if (waiting === undefined) {
      waiting = new PromiseDelegate<void>();
      this.waiting.set(id, waiting);
      this.request(id);
    }
    return waiting.promise;
  }

  /** Gives a frame the state of a widget, and its messages from now on. */
  get(frame: IWidgetFrame, id: string): void {
    if (this.waiting.size >= MAX_WAITING) {
      frame.post({ type: 'missing', id });
      return;
    }
    void this.known(id).then(() => {
      const found = this.states.get(id);
      if (found === undefined) {
        frame.post({ type: 'missing', id });
        return;
      }
      this.framesOf(id).add(frame);
      frame.post({ type: 'model', id, ...found });
    });
  }

  /** Passes a message of a frame on to a widget that the frame has. */
  send(frame: IWidgetFrame, id: string, message: IJson, buffers: IBuffers, number: number): void {
    const method = message['method'];
    if (this.frames.get(id)?.has(frame) !== true || (method !== 'update' && method !== 'custom')) {
      return;
    }
    const future = this.sendToKernel(id, message, buffers);
    if (future === undefined) {
      frame.post({ type: 'idle', cause: number });
      return;
    }
    const sentId = future.msg.header.msg_id;
    this.sent.set(sentId, { frame, number });
    void future.done
      .catch(() => undefined)
      .then(() => {
        this.sent.delete(sentId);
        frame.post({ type: 'idle', cause: number });
      });
    if (method === 'update') {
      this.states.update(id, message, buffers);
    }
  }

  /** Forgets a frame. */
  remove(frame: IWidgetFrame): void {
    for (const frames of this.frames.values()) {
      frames.delete(frame);
    }
  }

  private readonly onStatus = (_: unknown, status: Kernel.Status): void => {
    if (status === 'restarting' || status === 'autorestarting' || status === 'dead') {
      this.onKernelGone();
    }
  };

  /** Asks the new kernel for what is waited for: after a reload it is the one that has those widgets. */
  private readonly onKernelChanged = (): void => {
    const wanted = [...this.waiting];
    this.onKernelGone();
    for (const [id, waiting] of wanted) {
      this.waiting.set(id, waiting);
      this.request(id);
    }
  };

  private readonly onMessage = (_: unknown, message: KernelMessage.IMessage): void => {
    const content: unknown = message.content;
    if (message.header.msg_type !== 'comm_msg' || !isJson(content) || content['comm_id'] !== TUNNEL) {
      return;
    }
    const carried = content['data'];
    const id = isJson(carried) ? parseModelId(carried['comm_id']) : undefined;
    if (id === undefined || !isJson(carried)) {
      return;
    }
    const inner = isJson(carried['message']) ? carried['message'] : {};
    const buffers = message.buffers ?? [];
    if (carried['kind'] === 'comm_open') {
      this.opened(id, inner, buffers);
    } else if (carried['kind'] === 'comm_close') {
      this.states.close(id);
      this.stopCapture(id);
      this.tell(id, () => ({ type: 'closed', id }));
      this.frames.delete(id);
    } else {
      this.changed(id, inner, buffers, message);
    }
  };

  private opened(id: string, message: IJson, buffers: IBuffers): void {
    this.states.open(id, message, buffers);
    // A widget that is too large is not kept; those who wait then hear that it is missing.
    this.waiting.get(id)?.resolve();
    this.waiting.delete(id);
    this.watchOutput(id);
  }

  private changed(id: string, message: IJson, buffers: IBuffers, original: KernelMessage.IMessage): void {
    const isUpdate = message['method'] === 'update' || message['method'] === 'echo_update';
    const cause = 'msg_id' in original.parent_header ? original.parent_header.msg_id : '';
    if (isUpdate && !this.states.has(id)) {
      if (this.waiting.has(id)) {
        this.opened(id, message, buffers);
      }
      return;
    }
    if (isUpdate) {
      if (message['method'] === 'echo_update' && this.ownUpdates.has(cause)) {
        return;
      }
      this.states.update(id, message, buffers);
      this.watchOutput(id);
    }
    const sent = this.sent.get(cause);
    this.tell(id, frame => ({
      type: 'message',
      id,
      message,
      buffers,
      cause: sent?.frame === frame ? sent.number : null
    }));
  }

  private tell(id: string, message: (frame: IWidgetFrame) => IToFrame): void {
    for (const frame of this.frames.get(id) ?? []) {
      frame.post(message(frame));
    }
  }

  /** Collects what belongs to an output widget while its state names the message that it belongs to. */
  private watchOutput(id: string): void {
    if (this.states.member(id, '_model_name') !== 'OutputModel') {
      return;
    }
    const named = this.states.member(id, 'msg_id');
    const wanted = typeof named === 'string' ? named : '';
    if (this.captures.get(id)?.parent === wanted) {
      return;
    }
    this.stopCapture(id);
    const kernel = this.session.session?.kernel;
    if (wanted === '' || kernel === null || kernel === undefined) {
      return;
    }
    const captured = new CapturedOutputs(this.states.member(id, 'outputs'));
    let timer: ReturnType<typeof setTimeout> | undefined;
    const show = () => {
      clearTimeout(timer);
      timer = undefined;
      this.showOutputs(id, captured.outputs);
    };
    const hook = (message: KernelMessage.IIOPubMessage) => {
      if (!isOutput(message)) {
        return true;
      }
      captured.add(message);
      timer ??= setTimeout(show, GATHER_MS);
      return false;
    };
    kernel.registerMessageHook(wanted, hook);
    const stop = () => {
      kernel.removeMessageHook(wanted, hook);
      if (timer !== undefined) {
        show();
      }
    };
    this.captures.set(id, { parent: wanted, stop });
  }

  private stopCapture(id: string): void {
    this.captures.get(id)?.stop();
    this.captures.delete(id);
  }

  private showOutputs(id: string, outputs: IJson[]): void {
    const message = { method: 'update', state: { outputs }, buffer_paths: [] };
    this.states.update(id, message, []);
    this.tell(id, () => ({ type: 'message', id, message, buffers: [], cause: null }));
    const future = this.sendToKernel(id, message, []);
    if (future !== undefined) {
      const sentId = future.msg.header.msg_id;
      this.ownUpdates.add(sentId);
      void future.done.catch(() => undefined).then(() => this.ownUpdates.delete(sentId));
    }
  }

  private request(id: string): void {
    this.sendToKernel(id, { method: 'request_state' }, []);
  }

  private sendToKernel(id: string, data: IJson, buffers: IBuffers): Kernel.IShellFuture | undefined {
    const kernel = this.session.session?.kernel;
    if (kernel === null || kernel === undefined) {
      return undefined;
    }
    const message = KernelMessage.createMessage<KernelMessage.ICommMsgMsg<'shell'>>({
      msgType: 'comm_msg',
      channel: 'shell',
      username: kernel.username,
      session: kernel.clientId,
      content: { comm_id: id, data: data as never },
      buffers
    });
    return kernel.sendShellMessage(message, false, true);
  }

  private framesOf(id: string): Set<IWidgetFrame> {
    let frames = this.frames.get(id);
    if (frames === undefined) {
      frames = new Set();
      this.frames.set(id, frames);
    }
    return frames;
  }

  private onKernelGone(): void {
    const frames = new Set([...this.frames.values()].flatMap(some => [...some]));
    for (const id of [...this.captures.keys()]) {
      this.stopCapture(id);
    }
    this.states.clear();
    this.frames.clear();
    this.waiting.clear();
    this.sent.clear();
    for (const frame of frames) {
      frame.kernelGone();
    }
  }

  private hasBeenDisposed = false;
  private readonly states = new WidgetStates();
  private readonly frames = new Map<string, Set<IWidgetFrame>>();
  private readonly waiting = new Map<string, PromiseDelegate<void>>();
  private readonly sent = new Map<string, ISent>();
  private readonly ownUpdates = new Set<string>();
  private readonly captures = new Map<string, { readonly parent: string; readonly stop: () => void }>();
}

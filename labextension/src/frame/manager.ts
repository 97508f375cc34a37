import type { ICallbacks, IClassicComm, WidgetModel, WidgetView } from '@jupyter-widgets/base';
import { ManagerBase } from '@jupyter-widgets/base-manager';

import type { IBuffers, IFromFrame, IJson, IToFrame } from '../protocol/widgetFrames';
import { findClass } from './modules';

type IMessageHandler = (message: unknown) => void;

/** One widget's line to the kernel, through the page. */
class FrameComm implements IClassicComm {
  constructor(
    readonly comm_id: string,
    private readonly post: (message: IJson, buffers: IBuffers, callbacks?: ICallbacks) => string
  ) {}

  readonly target_name = 'jupyter.widget';

  send(data: unknown, callbacks?: ICallbacks, _metadata?: unknown, buffers?: IBuffers): string {
    return this.post(data as IJson, buffers ?? [], callbacks);
  }

  open(): string {
    throw new Error('A frame opens no comms.');
  }

  /** Does nothing: widgets are closed by the code that made them. */
  close(): string {
    return '';
  }

  on_msg(callback: IMessageHandler): void {
    this.onMessage = callback;
  }

  on_close(callback: IMessageHandler): void {
    this.onClose = callback;
  }

  onMessage: IMessageHandler = () => undefined;
  onClose: IMessageHandler = () => undefined;
}

/** Draws the widgets of one kernel with the classes that are bundled; gets their state from the page. */
export class FrameManager extends ManagerBase {
  constructor(private readonly post: (message: IFromFrame) => void) {
    super();
  }

  override get_model(id: string): Promise<WidgetModel> {
    let model = this.wanted.get(id);
    if (model === undefined) {
      model = new Promise<WidgetModel>((resolve, reject) => {
        this.answers.set(id, { resolve, reject });
      });
      this.wanted.set(id, model);
      this.post({ type: 'get', id });
    }
    return model;
  }

  /** Takes a message of the page. */
  receive(message: IToFrame): void {
    if (message.type === 'model') {
      this.makeModel(message);
    } else if (message.type === 'missing') {
      this.answers.get(message.id)?.reject(new Error('The kernel no longer has this widget.'));
      this.answers.delete(message.id);
      this.wanted.delete(message.id);
    } else if (message.type === 'message') {
      const { id, cause } = message;
      void this.whenMade(id, comm => {
        comm.onMessage({
          content: { comm_id: id, data: message.message },
          buffers: views(message.buffers),
          parent_header: { msg_id: cause === null ? '' : String(cause) }
        });
      });
    } else if (message.type === 'idle') {
      const callbacks = this.callbacksOf.get(message.cause);
      this.callbacksOf.delete(message.cause);
      callbacks?.iopub?.['status']?.({ content: { execution_state: 'idle' } } as never);
    } else if (message.type === 'closed') {
      void this.whenMade(message.id, comm => {
        comm.onClose({ content: { comm_id: message.id } });
      });
      this.wanted.delete(message.id);
      this.comms.delete(message.id);
    }
  }

  protected loadClass(name: string, module: string): Promise<typeof WidgetModel | typeof WidgetView> {
    return Promise.resolve().then(() => findClass(name, module) as typeof WidgetModel);
  }

  protected _create_comm(): Promise<IClassicComm> {
    return Promise.reject(new Error('A frame opens no comms.'));
  }

  protected _get_comm_info(): Promise<object> {
    return Promise.resolve({});
  }

  private makeModel({ id, message, buffers }: IToFrame & { type: 'model' }): void {
    const comm = new FrameComm(id, (data, bytes, callbacks) => this.send(id, data, bytes, callbacks));
    this.comms.set(id, comm);
    const opened = {
      content: { comm_id: id, data: message },
      buffers: views(buffers),
      metadata: { version: '2.1.0' }
    };
    const answer = this.answers.get(id);
    this.answers.delete(id);
    this.handle_comm_open(comm, opened as never).then(
      model => answer?.resolve(model),
      (error: unknown) => answer?.reject(error)
    );
  }

  private send(id: string, message: IJson, buffers: IBuffers, callbacks?: ICallbacks): string {
    const number = ++this.count;
    if (callbacks !== undefined) {
      this.callbacksOf.set(number, callbacks);
    }
    this.post({ type: 'send', id, message, buffers, number });
    return String(number);
  }

  /** Calls back once the widget is made, in the order of the calls; never for one that cannot be made. */
  private async whenMade(id: string, then: (comm: FrameComm) => void): Promise<void> {
    const comm = this.comms.get(id);
    const isMade = await this.wanted.get(id)?.then(
      () => true,
      // The code that draws the widget shows why.
      () => false
    );
    if (comm !== undefined && isMade !== false) {
      then(comm);
    }
  }

  private count = 0;
  private readonly wanted = new Map<string, Promise<WidgetModel>>();
  private readonly answers = new Map<
    string,
    { readonly resolve: (model: WidgetModel) => void; readonly reject: (error: unknown) => void }
  >();
  private readonly comms = new Map<string, FrameComm>();
  private readonly callbacksOf = new Map<number, ICallbacks>();
}

/** The bytes in the form that widgets expect. */
function views(buffers: IBuffers): DataView[] {
  return buffers.map(buffer =>
    buffer instanceof ArrayBuffer
      ? new DataView(buffer)
      : new DataView(buffer.buffer as ArrayBuffer, buffer.byteOffset, buffer.byteLength)
  );
}

import type { KernelMessage } from '@jupyterlab/services';

import type { IJson } from '../../protocol/widgetFrames';

/** Outputs that one widget collects, characters of all of them, and characters of the text of a stream. */
const MAX_OUTPUTS = 500;
const MAX_SIZE = 16 * 1024 * 1024;
const MAX_TEXT = 200_000;

/** The types of messages that are outputs. */
const OUTPUT_TYPES = new Set(['stream', 'display_data', 'execute_result', 'error', 'clear_output']);

/** Whether a message is one that an output widget collects. */
export function isOutput(message: KernelMessage.IMessage): boolean {
  return OUTPUT_TYPES.has(message.header.msg_type);
}

/** The outputs that an output widget has collected, in the notebook format. */
export class CapturedOutputs {
  constructor(outputs: unknown) {
    this.outputs = Array.isArray(outputs) ? [...(outputs as IJson[])] : [];
  }

  /** Adds a message of the kernel; the oldest outputs go when there are too many. */
  add(message: KernelMessage.IMessage): void {
    const type = message.header.msg_type;
    const content = message.content as IJson;
    if (type === 'clear_output') {
      if (content['wait'] === true) {
        this.isClearing = true;
      } else {
        this.outputs = [];
      }
      return;
    }
    if (this.isClearing) {
      this.isClearing = false;
      this.outputs = [];
    }
    const last = this.outputs.at(-1);
    if (type === 'stream' && last?.['output_type'] === 'stream' && last['name'] === content['name']) {
      const text = String(last['text']) + String(content['text']);
      this.outputs = [...this.outputs.slice(0, -1), { ...last, text: text.slice(-MAX_TEXT) }];
      return;
    }
    const output: IJson = { output_type: type, ...content };
    delete output['transient'];
    this.sizes.set(output, JSON.stringify(output).length);
    this.outputs = this.latest([...this.outputs, output].slice(-MAX_OUTPUTS));
  }

  /** The last of these outputs, as many as there is room for. The text of streams has a limit of its own. */
  private latest(outputs: readonly IJson[]): IJson[] {
    let size = outputs.reduce((total, output) => total + (this.sizes.get(output) ?? 0), 0);
    const first = outputs.findIndex(output => {
      const fits = size <= MAX_SIZE;
      size -= this.sizes.get(output) ?? 0;
      return fits;
    });
    return first < 0 ? [] : outputs.slice(first);
  }

  outputs: IJson[];
  private isClearing = false;
  private readonly sizes = new WeakMap<IJson, number>();
}

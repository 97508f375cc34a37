import { element } from '../dom';
import { formatBytes } from '../format';
import { trans } from '../translation';
import type { IUploadOptions } from './upload';

/** Milliseconds before the bar is shown; small files are uploaded before it could be read. */
const SHOW_DELAY = 400;

/** Shows the progress of an upload and a button that cancels it. */
export class UploadBar {
  constructor(readonly node: HTMLElement) {
    node.classList.add('sbx-UploadBar');
    node.hidden = true;
    const cancel = element('button', 'sbx-Button sbx-mod-plain', { type: 'button' }, trans.__('Cancel'));
    cancel.addEventListener('click', () => {
      this.controller?.abort();
    });
    this.text = element('span', 'sbx-UploadBar-text', { role: 'status' });
    this.bar = element('progress', 'sbx-UploadBar-bar', { 'aria-label': trans.__('Upload') });
    node.append(this.text, this.bar, cancel);
  }

  /** Shows one upload until it ends. */
  async follow(file: File, send: (options: IUploadOptions) => Promise<void>): Promise<void> {
    const controller = new AbortController();
    this.controller = controller;
    this.text.textContent = trans.__('Uploading %1', file.name);
    this.bar.removeAttribute('value');
    const timer = window.setTimeout(() => {
      this.node.hidden = false;
    }, SHOW_DELAY);
    try {
      await send({
        signal: controller.signal,
        onProgress: (done, total) => {
          this.bar.max = Math.max(total, 1);
          this.bar.value = done;
          this.text.textContent = trans.__('Uploading %1: %2 of %3', file.name, formatBytes(done), formatBytes(total));
        }
      });
    } finally {
      window.clearTimeout(timer);
      this.controller = null;
      this.node.hidden = true;
    }
  }

  dispose(): void {
    this.controller?.abort();
  }

  private readonly text: HTMLElement;
  private readonly bar: HTMLProgressElement;
  private controller: AbortController | null = null;
}

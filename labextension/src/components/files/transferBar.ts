import { element } from '../dom';
import { trans } from '../translation';
import type { IUploadOptions } from './upload';

/** Milliseconds before a transfer is shown; that of a small file is over before it could be read. */
const SHOW_DELAY = 400;

/** Shows uploads and downloads that go on, each with its progress and a button that cancels it. */
export class TransferBar {
  constructor(readonly node: HTMLElement) {
    node.classList.add('sbx-TransferBar');
    node.hidden = true;
  }

  /**
   * Shows one transfer until it ends.
   *
   * `described` names it, with the bytes so far once they are known; `transfer` moves the bytes, and rejects
   * when its signal is aborted.
   */
  async follow<T>(described: (done?: number, total?: number) => string, transfer: (options: IUploadOptions) => Promise<T>): Promise<T> {
    const controller = new AbortController();
    this.controllers.add(controller);
    const text = element('span', 'sbx-TransferBar-text', { role: 'status' });
    const bar = element('progress', 'sbx-TransferBar-bar', { 'aria-label': described() });
    const cancel = element('button', 'sbx-Button sbx-mod-plain', { type: 'button' }, trans.__('Cancel'));
    cancel.addEventListener('click', () => {
      controller.abort();
    });
    const row = element('div', 'sbx-TransferBar-row', {}, text, bar, cancel);
    const timer = window.setTimeout(() => {
      this.node.append(row);
      this.node.hidden = false;
      text.textContent ||= described();
    }, SHOW_DELAY);
    try {
      return await transfer({
        signal: controller.signal,
        onProgress: (done, total) => {
          bar.max = Math.max(total, 1);
          bar.value = done;
          text.textContent = described(done, total);
        }
      });
    } finally {
      window.clearTimeout(timer);
      this.controllers.delete(controller);
      row.remove();
      this.node.hidden = this.node.childElementCount === 0;
    }
  }

  dispose(): void {
    this.controllers.forEach(controller => {
      controller.abort();
    });
  }

  private readonly controllers = new Set<AbortController>();
}

import { Notification } from '@jupyterlab/apputils';

import { trans } from '../components/translation';

/** Milliseconds between two updates of the notification. */
const UPDATE_INTERVAL = 250;

/** Shows the progress of something long in a notification with a Cancel button. */
export class ProgressNotification {
  /** Nothing is shown in the first `delay` milliseconds, since most work is over by then. */
  constructor(private readonly delay: number) {}

  /** Aborted when the user cancels. */
  get signal(): AbortSignal {
    return this.controller.signal;
  }

  /** Shows what `describe` gives: a text, and how much of 1 is done. */
  update(describe: () => { readonly message: string; readonly progress: number }): void {
    const now = Date.now();
    if (now - this.started < this.delay || now - this.lastUpdate < UPDATE_INTERVAL) {
      return;
    }
    this.lastUpdate = now;
    const { message, progress } = describe();
    if (this.id === null) {
      this.id = Notification.emit(message, 'in-progress', {
        autoClose: false,
        progress,
        actions: [
          {
            label: trans.__('Cancel'),
            callback: () => {
              this.controller.abort();
            }
          }
        ]
      });
    } else {
      Notification.update({ id: this.id, message, progress });
    }
  }

  end(): void {
    if (this.id !== null) {
      Notification.dismiss(this.id);
      this.id = null;
    }
  }

  private readonly controller = new AbortController();
  private readonly started = Date.now();
  private lastUpdate = 0;
  private id: string | null = null;
}

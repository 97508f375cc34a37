import { Notification } from '@jupyterlab/apputils';

/** Says that something failed until the user has seen it; without a time it would not be shown. */
export function notifyError(message: string): void {
  Notification.error(message, { autoClose: false });
}

import { Notification } from '@jupyterlab/apputils';

/** Shows an error until the user dismisses it; without `autoClose` no toast would appear. */
export function notifyError(message: string): void {
  Notification.error(message, { autoClose: false });
}

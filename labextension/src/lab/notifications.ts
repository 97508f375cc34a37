import { Notification } from '@jupyterlab/apputils';

import { trans } from '../components/translation';
import { splitMessage } from './help/readMore';

/**
 * Shows an error until the user dismisses it; without `autoClose` no toast would appear. The page of
 * the documentation that the message names becomes a button.
 */
export function notifyError(message: string): void {
  const { text, open } = splitMessage(message);
  const actions = open === undefined ? [] : [{ label: trans.__('Read more'), callback: open }];
  Notification.error(text, { autoClose: false, actions });
}

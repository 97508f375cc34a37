import { Dialog, Notification, showDialog } from '@jupyterlab/apputils';
import { Widget } from '@lumino/widgets';

import { element } from '../../components/dom';
import { trans } from '../../components/translation';
import { messageOf } from '../../protocol/errors';
import type { IBuild } from '../../protocol/storage';
import { notifyError } from '../notifications';
import type { StorageRequests } from './requests';

interface IQuestion {
  readonly title: string;
  readonly name: string;
  /** The consequences, a sentence each. */
  readonly consequences: readonly string[];
  readonly label: string;
}

/** Asks before something is deleted or thrown away, and says what that means. */
export async function confirmDeletion({ title, name, consequences, label }: IQuestion): Promise<boolean> {
  const body = new Widget({ node: element('div', 'sbx-Confirm') });
  body.node.append(element('p', 'sbx-Confirm-name', {}, name), ...consequences.map(sentence => element('p', '', {}, sentence)));
  const { button } = await showDialog({
    title,
    body,
    buttons: [Dialog.cancelButton(), Dialog.warnButton({ label })],
    defaultButton: 0
  });
  return button.accept;
}

/** Does something, says that it is done or why not, and then reads the list again. */
export async function attempt(work: () => Promise<void>, done: string, failed: string, refresh: () => void): Promise<boolean> {
  try {
    await work();
    Notification.success(done, { autoClose: 3000 });
    return true;
  } catch (reason) {
    notifyError(`${failed} ${messageOf(reason)}`);
    return false;
  } finally {
    refresh();
  }
}

/** Stops a build, of which nothing is kept. */
export async function cancelBuild(build: IBuild, name: string, requests: StorageRequests, refresh: () => void): Promise<void> {
  const work = () => requests.cancelBuild(build);
  await attempt(work, trans.__('The build of %1 is cancelled.', name), trans.__('The build of %1 could not be cancelled.', name), refresh);
}

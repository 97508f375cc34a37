import { Dialog, Notification, showDialog } from '@jupyterlab/apputils';
import { PathExt } from '@jupyterlab/coreutils';
import type { Contents } from '@jupyterlab/services';

import { formatBytes } from '../../components/format';
import { trans } from '../../components/translation';
import { messageOf } from '../../protocol/errors';
import { sizeOf } from '../../protocol/runtime';
import { notifyError } from '../notifications';
import type { Sandboxes } from '../sandboxes';
import type { TakeHome } from './sections';

/** The largest file that is copied through the page; larger ones are downloaded. */
const MAX_SIZE = 64 * 2 ** 20;
const CHUNK = 0x8000;

/** Copies files of sandboxes to a folder of the notebook files; `folder` gives its path at that time. */
export function takeHomeTo(contents: Contents.IManager, sandboxes: Sandboxes, folder: () => string): TakeHome {
  return async (sandboxId, path) => {
    const name = PathExt.basename(path);
    try {
      const transport = sandboxes.transport(sandboxId);
      const size = sizeOf(await transport.stat(path));
      if (size > MAX_SIZE) {
        Notification.info(trans.__('%1 has %2; download it instead.', name, formatBytes(size)), {
          autoClose: 8000,
          actions: [{ label: trans.__('Download'), callback: () => { window.open(transport.fileUrl(path), '_blank', 'noopener'); } }]
        });
        return;
      }
      const target = await freePath(contents, PathExt.join(folder(), name));
      if (target === null) {
        return;
      }
      const content = base64(await transport.read(path));
      await contents.save(target, { type: 'file', format: 'base64', content });
      Notification.success(trans.__('%1 is in the notebook files as %2.', name, target), { autoClose: 4000 });
    } catch (reason) {
      notifyError(trans.__('%1 could not be taken home. %2', name, messageOf(reason)));
    }
  };
}

/** The path to write to: `wanted`, or another name if the user wants both; `null` when they cancel. */
async function freePath(contents: Contents.IManager, wanted: string): Promise<string | null> {
  if (!(await exists(contents, wanted))) {
    return wanted;
  }
  const { button } = await showDialog({
    title: trans.__('Replace the file?'),
    body: trans.__('“%1” is in the notebook files already.', wanted),
    buttons: [
      Dialog.cancelButton(),
      Dialog.okButton({ label: trans.__('Keep both') }),
      Dialog.warnButton({ label: trans.__('Replace') })
    ],
    defaultButton: 1
  });
  if (!button.accept) {
    return null;
  }
  if (button.displayType === 'warn') {
    return wanted;
  }
  const extension = PathExt.extname(wanted);
  const stem = wanted.slice(0, wanted.length - extension.length);
  for (let number = 2; ; number += 1) {
    const path = `${stem}-${number}${extension}`;
    if (!(await exists(contents, path))) {
      return path;
    }
  }
}

async function exists(contents: Contents.IManager, path: string): Promise<boolean> {
  try {
    await contents.get(path, { content: false });
    return true;
  } catch (reason) {
    const status = (reason as { response?: { status?: number } }).response?.status;
    if (status === 404) {
      return false;
    }
    throw reason;
  }
}

/** Encodes in pieces: a call cannot have as many arguments as a file has bytes. */
function base64(bytes: Uint8Array): string {
  let text = '';
  for (let at = 0; at < bytes.length; at += CHUNK) {
    text += String.fromCharCode(...bytes.subarray(at, at + CHUNK));
  }
  return btoa(text);
}

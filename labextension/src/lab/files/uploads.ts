import { Dialog, showDialog } from '@jupyterlab/apputils';
import type { FileBrowserModel } from '@jupyterlab/filebrowser';
import type { Contents } from '@jupyterlab/services';
import { fileUploadIcon, ToolbarButton } from '@jupyterlab/ui-components';

import { element } from '../../components/dom';
import { formatBytes } from '../../components/format';
import { trans } from '../../components/translation';
import { isAbort } from '../../components/files/upload';
import { messageOf } from '../../protocol/errors';
import type { SandboxDrive } from './drive';
import { notifyError } from '../notifications';
import { ProgressNotification } from '../progressNotification';

/** Milliseconds before an upload is shown. */
const SHOW_DELAY = 1000;

/**
 * Makes a browser of sandbox files upload each file in one request.
 *
 * JupyterLab would send base64 chunks, and could neither show the progress inside the sandbox nor
 * cancel.
 */
export function uploadWithoutChunks(model: FileBrowserModel, drive: SandboxDrive): void {
  model.upload = async (file: File, directory?: string): Promise<Contents.IModel> => {
    const localDir = drivePath(directory ?? model.path);
    try {
      if ((await drive.has(localDir, file.name)) && !(await confirmReplace(file.name))) {
        throw new DOMException(trans.__('%1 was not uploaded.', file.name), 'AbortError');
      }
      return await uploadWithProgress(drive, localDir, file);
    } catch (reason) {
      if (!isAbort(reason)) {
        notifyError(trans.__('%1 was not uploaded. %2', file.name, messageOf(reason)));
      }
      throw reason;
    }
  };
}

async function uploadWithProgress(drive: SandboxDrive, localDir: string, file: File): Promise<Contents.IModel> {
  const shown = new ProgressNotification(SHOW_DELAY);
  const onProgress = (done: number, total: number) => {
    shown.update(() => ({
      message: trans.__('Uploading %1: %2 of %3', file.name, formatBytes(done), formatBytes(total)),
      progress: total > 0 ? done / total : 0
    }));
  };
  try {
    return await drive.upload(localDir, file, { onProgress, signal: shown.signal });
  } finally {
    shown.end();
  }
}

/** A button that uploads the files that the user picks; each has its own notification. */
export function uploadButton(model: FileBrowserModel): ToolbarButton {
  const picker = element('input', '', { type: 'file', multiple: '' });
  picker.addEventListener('change', () => {
    const sent = [...(picker.files ?? [])].map(file => model.upload(file));
    picker.value = '';
    void Promise.allSettled(sent);
  });
  return new ToolbarButton({
    icon: fileUploadIcon,
    tooltip: trans.__('Upload Files'),
    onClick: () => {
      picker.click();
    }
  });
}

/** The part of a path after the drive's name. */
function drivePath(path: string): string {
  const colon = path.indexOf(':');
  return colon < 0 ? path : path.slice(colon + 1);
}

async function confirmReplace(name: string): Promise<boolean> {
  const result = await showDialog({
    title: trans.__('Replace the file?'),
    body: trans.__('“%1” is there already.', name),
    buttons: [Dialog.cancelButton(), Dialog.warnButton({ label: trans.__('Replace') })],
    defaultButton: 0
  });
  return result.button.accept;
}

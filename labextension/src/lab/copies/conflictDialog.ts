import { Dialog, showDialog } from '@jupyterlab/apputils';
import { Widget } from '@lumino/widgets';

import { element } from '../../components/dom';
import { trans } from '../../components/translation';
import type { Answer, Ask } from './conflicts';
import { mayReplace } from './conflicts';
import type { ICopyEntry } from './places';

/** Asks in a dialog of JupyterLab. */
export const askInDialog: Ask = async (entry, there, more) => {
  const isFolder = there.kind !== 'file';
  const replace = isFolder ? trans.__('Merge') : trans.__('Replace');
  const body = new Widget({
    node: element(
      'div',
      'sbx-Confirm',
      {},
      element('p', 'sbx-Confirm-name', {}, entry.name),
      element('p', '', {}, question(entry, there))
    )
  });
  const buttons = [
    Dialog.cancelButton(),
    Dialog.cancelButton({ label: trans.__('Skip'), actions: ['skip'] }),
    ...(mayReplace(entry, there) ? [Dialog.warnButton({ label: replace, actions: ['replace'] })] : []),
    Dialog.okButton({ label: trans.__('Keep both'), actions: ['keep both'] })
  ];
  const { button, isChecked } = await showDialog({
    title: isFolder ? trans.__('There is a folder of this name') : trans.__('There is a file of this name'),
    body,
    buttons,
    defaultButton: buttons.length - 1,
    checkbox: more === 0 ? null : { label: more === 1 ? trans.__('The same for the one that follows') : trans.__('The same for the %1 that follow', more) }
  });
  const [answer] = button.actions;
  return answer !== undefined ? { answer: answer as Answer, all: isChecked === true } : null;
};

function question(entry: ICopyEntry, there: ICopyEntry): string {
  if (!mayReplace(entry, there)) {
    return trans.__('One is a file, the other is a folder. Both can be kept, the copy under another name.');
  }
  return there.kind === 'file'
    ? trans.__('“Replace” loses the file that is there now.')
    : trans.__('“Merge” replaces files that are in both folders.');
}

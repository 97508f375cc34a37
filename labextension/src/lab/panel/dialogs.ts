import { Dialog, InputDialog, showDialog } from '@jupyterlab/apputils';
import { Widget } from '@lumino/widgets';

import { element } from '../../components/dom';
import { formatDuration } from '../../components/format';
import { trans } from '../../components/translation';
import type { ISandbox } from '../../protocol/sandboxes';
import { displayName } from '../../protocol/sandboxes';
import { TIMEOUTS } from './timeouts';

/** Asks before a sandbox is killed, which cannot be undone. */
export async function confirmKill(sandbox: ISandbox): Promise<boolean> {
  const body = new Widget({ node: element('div', 'sbx-Confirm') });
  body.node.append(
    element('p', 'sbx-Confirm-name', {}, displayName(sandbox)),
    element('p', '', {}, trans.__('Its processes end and its files are deleted. This cannot be undone.'))
  );
  const result = await showDialog({
    title: trans.__('Kill this sandbox?'),
    body,
    buttons: [Dialog.cancelButton(), Dialog.warnButton({ label: trans.__('Kill sandbox') })],
    defaultButton: 0
  });
  return result.button.accept;
}

/** Lets the user pick one of several sandboxes; `null` when they cancel. */
export async function pickSandbox(sandboxes: readonly ISandbox[]): Promise<ISandbox | null> {
  const labels = sandboxes.map(sandbox =>
    displayName(sandbox) === sandbox.sandboxID ? sandbox.sandboxID : `${displayName(sandbox)} (${sandbox.sandboxID})`
  );
  const result = await InputDialog.getItem({ title: trans.__('Which sandbox?'), items: labels, okLabel: trans.__('Choose') });
  const at = result.value === null ? -1 : labels.indexOf(result.value);
  return result.button.accept ? (sandboxes[at] ?? null) : null;
}

/** Asks for a new timeout, in seconds from now; `null` when the user cancels. */
export async function askForTimeout(): Promise<number | null> {
  const labels = TIMEOUTS.map(formatDuration);
  const result = await InputDialog.getItem({
    title: trans.__('Keep the sandbox for'),
    items: labels,
    current: 2,
    okLabel: trans.__('Set')
  });
  const at = result.value === null ? -1 : labels.indexOf(result.value);
  return result.button.accept ? (TIMEOUTS[at] ?? null) : null;
}

/** Asks before a snapshot or template is deleted. */
export async function confirmRemoval(name: string): Promise<boolean> {
  const body = new Widget({ node: element('div', 'sbx-Confirm') });
  body.node.append(
    element('p', 'sbx-Confirm-name', {}, name),
    element('p', '', {}, trans.__('No sandbox can be created from it any more. This cannot be undone.'))
  );
  const result = await showDialog({
    title: trans.__('Delete it?'),
    body,
    buttons: [Dialog.cancelButton(), Dialog.warnButton({ label: trans.__('Delete') })],
    defaultButton: 0
  });
  return result.button.accept;
}

/** Asks before a terminal is ended in which a program runs; `running` is `null` if it is unknown. */
export async function confirmEnd(name: string, running: string | null): Promise<boolean> {
  const what =
    running === null
      ? trans.__('Whatever runs in it ends, too.')
      : trans.__('“%1” runs in it and ends, too.', running);
  const body = new Widget({ node: element('div', 'sbx-Confirm') });
  body.node.append(element('p', 'sbx-Confirm-name', {}, name), element('p', '', {}, what));
  const result = await showDialog({
    title: trans.__('End this terminal?'),
    body,
    buttons: [Dialog.cancelButton(), Dialog.warnButton({ label: trans.__('End terminal') })],
    defaultButton: 0
  });
  return result.button.accept;
}

import { Dialog, showDialog } from '@jupyterlab/apputils';

import { trans } from '../../components/translation';
import type { INewSandbox } from '../../protocol/sandboxes';
import type { Sandboxes } from '../sandboxes';
import type { ISandboxSettings } from '../settings';
import { lastChoices, rememberChoices } from './lastChoices';
import { NewSandboxForm } from './newSandboxForm';

/** Asks what a new sandbox is; `null` when the user cancels. */
export async function askForSandbox(settings: ISandboxSettings, sandboxes: Sandboxes): Promise<INewSandbox | null> {
  const form = new NewSandboxForm(settings, lastChoices());
  // The dialog does not wait for these: a name can be typed meanwhile.
  sandboxes.templates().then(
    templates => {
      form.suggest(templates);
    },
    () => undefined
  );
  sandboxes.volumes().then(
    volumes => {
      form.offerVolumes(volumes);
    },
    () => {
      form.offerVolumes([]);
    }
  );
  const result = await showDialog({
    title: trans.__('New sandbox'),
    body: form,
    buttons: [Dialog.cancelButton(), Dialog.okButton({ label: trans.__('Create') })],
    focusNodeSelector: 'input'
  });
  if (!result.button.accept || result.value === null) {
    return null;
  }
  rememberChoices(result.value);
  return result.value;
}

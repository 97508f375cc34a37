import * as React from 'react';

import { formatAge } from '../../components/format';
import { trans } from '../../components/translation';
import type { ISecret } from '../../protocol/storage';
import { killIcon, renameIcon } from '../icons';
import { usePolled } from '../polled';
import { NameForm } from './nameForm';
import { attempt, confirmDeletion } from './questions';
import type { StorageRequests } from './requests';
import type { IStoreProps } from './sections';
import { NONE, StoreTable } from './storeTable';

const INTERVAL = 20_000;

interface ISecretsProps extends IStoreProps {
  readonly requests: StorageRequests;
}

/** The names of the secrets; a value is written, replaced, and never shown again. */
export function SecretsSection({ requests, sandboxes, isActive }: ISecretsProps): React.JSX.Element {
  const read = React.useCallback(() => requests.secrets(), [requests]);
  const polled = usePolled<readonly ISecret[]>(read, INTERVAL, isActive);
  const { refresh } = polled;
  const [changed, setChanged] = React.useState<string | null>(null);
  // The button to which the focus goes back.
  const opener = React.useRef<Element | null>(null);
  const close = () => {
    setChanged(null);
    if (opener.current instanceof HTMLElement) {
      opener.current.focus();
    }
  };
  const remove = async ({ name }: ISecret) => {
    const sure = await confirmDeletion({
      title: trans.__('Delete this secret?'),
      name,
      consequences: [trans.__('Requests of sandboxes that use it are sent without its value from then on. This cannot be undone.')],
      label: trans.__('Delete')
    });
    if (sure) {
      await attempt(() => requests.removeSecret(name), trans.__('%1 is deleted.', name), trans.__('%1 could not be deleted.', name), refresh);
    }
  };
  const create = (name: string, value: string) =>
    attempt(() => requests.createSecret(name, value), trans.__('Secret %1 is stored.', name), trans.__('The secret could not be stored.'), refresh);
  const update = async (name: string, value: string) => {
    const work = () => requests.updateSecret(name, value);
    const isDone = await attempt(work, trans.__('Secret %1 has a new value.', name), trans.__('%1 could not be changed.', name), refresh);
    if (isDone) {
      close();
    }
    return isDone;
  };
  const age = (time: string | undefined) => (time === undefined ? NONE : formatAge((sandboxes.now() - Date.parse(time)) / 1000));
  return (
    <StoreTable
      label={trans.__('Secrets')}
      polled={polled}
      texts={{
        missing: trans.__('This deployment has no secrets'),
        none: trans.__('No secrets yet'),
        hint: trans.__('A secret is put into requests that sandboxes send, outside of them. Its value is never shown, to you or to a sandbox.'),
        failed: trans.__('The secrets could not be listed')
      }}
      columns={[trans.__('Age')]}
      tools={
        changed === null ? (
          <NameForm key="new" label={trans.__('New secret')} button={trans.__('Store')} hasValue submit={create} />
        ) : (
          <NameForm key={changed} label={trans.__('New value of %1', changed)} button={trans.__('Replace')} hasValue name={changed} submit={update} cancel={close} />
        )
      }
      row={secret => ({
        id: secret.name,
        name: secret.name,
        facts: [age(secret.updatedAt ?? secret.createdAt)],
        actions: [
          { icon: renameIcon, label: trans.__('Replace the value of %1', secret.name), run: () => { opener.current = document.activeElement; setChanged(secret.name); } },
          { icon: killIcon, label: trans.__('Delete %1', secret.name), run: () => void remove(secret) }
        ]
      })}
    />
  );
}

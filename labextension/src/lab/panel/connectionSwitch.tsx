import * as React from 'react';

import { checkResponse } from '../../components/responses';
import { trans } from '../../components/translation';
import { messageOf } from '../../protocol/errors';
import { notifyError } from '../notifications';
import type { Sandboxes } from '../sandboxes';
import { choices, connectionLabel, connectionTrouble, stateText } from './connectionText';

/** Chooses the deployment of lists and new sandboxes, if there are several, and says what is wrong with it. */
export function ConnectionSwitch({ sandboxes }: { readonly sandboxes: Sandboxes }): React.JSX.Element | null {
  const [wanted, setWanted] = React.useState<string | null>(null);
  const { info } = sandboxes;
  const names = choices(info);
  const connection = info?.connection;
  if (connection === undefined || names.length === 0) {
    return null;
  }
  const choose = async (name: string): Promise<void> => {
    setWanted(name);
    try {
      await use(sandboxes, name);
    } catch (reason) {
      notifyError(trans.__('The connection “%1” cannot be used. %2', connectionLabel(name), messageOf(reason)));
    } finally {
      setWanted(null);
    }
  };
  // A failed listing says what is wrong by itself.
  const trouble = sandboxes.error === null ? connectionTrouble(connection) : null;
  return (
    <div className="sbx-Connection">
      <select
        aria-label={trans.__('Connection')}
        title={trans.__('Lists and new sandboxes use “%1”, which %2.', connectionLabel(connection.name), stateText(connection))}
        value={wanted ?? connection.name}
        disabled={wanted !== null}
        onChange={event => void choose(event.target.value)}
      >
        {names.map(name => (
          <option key={name} value={name}>
            {connectionLabel(name)}
          </option>
        ))}
      </select>
      {trouble !== null && (
        <p className={`sbx-Connection-trouble sbx-mod-${connection.state}`} role="status">
          {trouble}
        </p>
      )}
    </div>
  );
}

/** Makes a connection the default of the server until it ends, and lists its sandboxes. */
async function use(sandboxes: Sandboxes, name: string): Promise<void> {
  const init = {
    method: 'PATCH',
    body: JSON.stringify({ default: name }),
    headers: { 'Content-Type': 'application/json' }
  };
  await checkResponse(await sandboxes.server.request(['connections'], init));
  await sandboxes.refresh();
}

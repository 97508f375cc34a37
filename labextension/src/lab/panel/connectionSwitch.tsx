import * as React from 'react';

import { trans } from '../../components/translation';
import { messageOf } from '../../protocol/errors';
import { notifyError } from '../notifications';
import type { Sandboxes } from '../sandboxes';
import { CommandLine } from './commandLine';
import { choices, connectionLabel, connectionTrouble, stateText } from './connectionText';

interface IConnectionProps {
  readonly sandboxes: Sandboxes;
}

/** Chooses the deployment of lists and new sandboxes, if there are several. */
export function ConnectionSwitch({ sandboxes }: IConnectionProps): React.JSX.Element | null {
  const [wanted, setWanted] = React.useState<string | null>(null);
  const { info } = sandboxes;
  const names = choices(info);
  const connection = info?.connection;
  if (connection === undefined || names.length === 0) {
    return null;
  }
  const choose = async (name: string): Promise<void> => {
    if (wanted !== null) {
      return;
    }
    setWanted(name);
    try {
      await use(sandboxes, name);
    } catch (reason) {
      notifyError(trans.__('The connection “%1” cannot be used. %2', connectionLabel(name), messageOf(reason)));
    } finally {
      setWanted(null);
    }
  };
  return (
    <div className="sbx-Connection">
      <select
        aria-label={trans.__('Connection')}
        title={trans.__('Lists and new sandboxes use “%1”, which %2.', connectionLabel(connection.name), stateText(connection))}
        value={wanted ?? connection.name}
        // Not disabled meanwhile, which would take the focus from it.
        aria-busy={wanted !== null}
        onChange={event => void choose(event.target.value)}
      >
        {names.map(name => (
          <option key={name} value={name}>
            {connectionLabel(name)}
          </option>
        ))}
      </select>
    </div>
  );
}

/** Says what is wrong with a connection whose sandboxes are listed all the same, such as another version. */
export function ConnectionTrouble({ sandboxes }: IConnectionProps): React.JSX.Element | null {
  // A failed listing says what is wrong by itself.
  const trouble = sandboxes.error === null ? connectionTrouble(sandboxes.info?.connection) : null;
  if (trouble === null) {
    return null;
  }
  return (
    <div className="sbx-Trouble" role="status">
      <p className="sbx-Trouble-title">{trouble.title}</p>
      <p>{trouble.message}</p>
      {trouble.advice !== undefined && <p>{trouble.advice}</p>}
      <CommandLine text={trouble.command} />
    </div>
  );
}

/** Makes a connection the default of the server until it ends, and lists its sandboxes. */
async function use(sandboxes: Sandboxes, name: string): Promise<void> {
  await sandboxes.api.patch('/connections', { body: { default: name } });
  await sandboxes.refresh();
}

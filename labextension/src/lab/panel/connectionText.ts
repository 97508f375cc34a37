import { trans } from '../../components/translation';
import type { IConnection } from '../../protocol/connections';
import type { IErrorDescription } from '../errorDescription';
import { sentence } from '../../protocol/errors';
import type { IServerInfo } from '../../protocol/sandboxes';
import { visible } from '../../protocol/sandboxes';

/** The connections to choose from; none where there is no choice. */
export function choices(info: IServerInfo | null): readonly string[] {
  const names = info?.connections ?? [];
  return names.length > 1 ? names : [];
}

/** The name of a connection as it is shown. */
export function connectionLabel(name: string): string {
  return name === 'local' ? trans.__('This machine') : visible(name);
}

/** The problem of a connection and its remedy; `null` if it works or starts. */
export function connectionTrouble(connection: IConnection | undefined): IErrorDescription | null {
  if (connection === undefined || connection.message === null) {
    return null;
  }
  const { name, message, remedy } = connection;
  const [, command] = /`([^`]+)`/.exec(remedy ?? '') ?? [];
  return {
    title: trans.__('“%1” %2', connectionLabel(name), stateText(connection)),
    message: sentence(message),
    ...(remedy === null ? {} : { advice: remedy.replaceAll('`', '') }),
    ...(command === undefined ? {} : { command })
  };
}

/** The state in a word, for the title of the switch. */
export function stateText({ state }: IConnection): string {
  return {
    stopped: trans.__('stopped: starts when it is needed'),
    starting: trans.__('starting'),
    ready: trans.__('ready'),
    unauthorized: trans.__('refuses the key'),
    unreachable: trans.__('does not answer'),
    incompatible: trans.__('has an incompatible version')
  }[state];
}

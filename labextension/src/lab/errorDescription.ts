import { trans } from '../components/translation';
import { messageOf, SandboxError } from '../protocol/errors';
import type { IServerInfo } from '../protocol/sandboxes';

/** Why sandboxes could not be read: a title, what was said, what to do, a command that helps. */
export interface IErrorDescription {
  readonly title: string;
  readonly message: string;
  readonly advice?: string;
  readonly command?: string;
}

/** What to tell a person about a failed reading. */
export function describeError(reason: unknown, info: IServerInfo | null): IErrorDescription {
  const message = messageOf(reason);
  const code = reason instanceof SandboxError ? reason.code : 'network';
  const isRemote = info?.url_kind === 'configured';
  if (code === 'network') {
    return {
      title: trans.__('The Jupyter server does not answer'),
      message,
      advice: trans.__('The list comes back by itself when the server does.')
    };
  }
  if (code === 'unauthenticated') {
    return {
      title: isRemote
        ? trans.__('%1 refuses the API key', info?.host ?? trans.__('The deployment'))
        : trans.__('The engine refuses the API key'),
      message,
      advice: isRemote
        ? trans.__('Set c.SbxExtension.api_key, or E2B_API_KEY in the environment of the Jupyter server, and restart it.')
        : trans.__('The engine was given another key; restart the Jupyter server so that it reads it again.')
    };
  }
  if (code === 'permission_denied') {
    return { title: trans.__('You may not see sandboxes on this server'), message };
  }
  if (code === 'unavailable' && isRemote) {
    return {
      title: trans.__('%1 cannot be reached', info?.host ?? trans.__('The deployment')),
      message,
      advice: trans.__('Check c.SbxExtension.api_url and the network of the Jupyter server.')
    };
  }
  if (code === 'unavailable') {
    return {
      title: trans.__('The engine is not running'),
      message,
      advice: trans.__('What this machine lacks, and how to get it, says:'),
      command: 'jupyter sbx doctor'
    };
  }
  return { title: trans.__('Could not list sandboxes'), message };
}

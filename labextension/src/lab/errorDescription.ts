import { trans } from '../components/translation';
import { messageOf, SandboxError, sentence } from '../protocol/errors';
import type { IServerInfo } from '../protocol/sandboxes';
import { splitMessage } from './help/readMore';

/** An error for people: a title, the message of the server, what to do, a command that helps, the page of the documentation that says more. */
export interface IErrorDescription {
  readonly title: string;
  readonly message: string;
  readonly advice?: string;
  readonly command?: string;
  readonly page?: string | undefined;
}

/** Describes why the sandboxes could not be listed. */
export function describeError(reason: unknown, info: IServerInfo | null): IErrorDescription {
  const { text: message, page } = splitMessage(sentence(messageOf(reason)));
  const code = reason instanceof SandboxError ? reason.code : 'network';
  const isRemote = info?.url_kind === 'configured';
  if (code === 'network') {
    return {
      title: trans.__('The Jupyter server does not answer'),
      message: trans.__('The list is updated when it answers again.')
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
        : trans.__('The engine was started with another key. Restart the Jupyter server, so that it reads the key again.'),
      page: page ?? 'connections'
    };
  }
  if (code === 'permission_denied') {
    return { title: trans.__('You are not allowed to list sandboxes on this server'), message, page };
  }
  if (code === 'unavailable' && isRemote) {
    return {
      title: trans.__('%1 cannot be reached', info?.host ?? trans.__('The deployment')),
      message,
      advice: trans.__('Check c.SbxExtension.api_url and the network of the Jupyter server.'),
      page: page ?? 'connections'
    };
  }
  if (code === 'unavailable') {
    return {
      title: trans.__('The engine is not running'),
      message,
      advice: trans.__('To see what this machine lacks and how to add it, run:'),
      command: 'jupyter sbx doctor',
      page: page ?? 'containers'
    };
  }
  return { title: trans.__('Could not list sandboxes'), message, page };
}

import { basename } from '../../components/files/paths';
import type { SandboxApi } from '../../components/sandboxApi';
import { trans } from '../../components/translation';
import type { CopyBody, CopyEnd } from '../../protocol/api';
import { SandboxError } from '../../protocol/errors';
import type { ICopyOptions } from './copyTree';

export type CopyResult = Pick<CopyEnd, 'failures' | 'links'>;

/** Lets the Jupyter server copy, so that the bytes do not pass the browser. Throws an `AbortError` when cancelled. */
export async function copyOnServer(api: SandboxApi, body: CopyBody, { signal, onProgress }: ICopyOptions): Promise<CopyResult> {
  for await (const event of api.events('post', '/copies', { body, signal })) {
    signal.throwIfAborted();
    if (event.name === 'progress') {
      onProgress?.(event.data);
    } else if (event.name === 'end') {
      const { failures, links } = event.data;
      return { failures: failures.map(each => ({ ...each, name: basename(each.name) })), links };
    }
  }
  signal.throwIfAborted();
  throw new SandboxError('unavailable', trans.__('The Jupyter server broke the copy off.'));
}

import { basename } from '../../components/files/paths';
import { readEvents } from '../../components/eventStream';
import type { IJupyterServer } from '../../components/jupyterServer';
import { checkResponse } from '../../components/responses';
import { trans } from '../../components/translation';
import { SandboxError } from '../../protocol/errors';
import type { ICopyFailure, ICopyOptions, ICopyProgress } from './copyTree';

/** Files and folders to copy; without a sandbox, paths are those of the notebook files. */
export interface IServerCopy {
  readonly sourceSandboxID: string | null;
  readonly targetSandboxID: string | null;
  /** Each target includes the new name. */
  readonly jobs: readonly { readonly source: string; readonly target: string }[];
  /** What happens where the target is there; folders are joined by `replace`. */
  readonly existing: 'fail' | 'replace' | 'skip' | 'keep';
}

export interface ICopyResult {
  readonly failures: readonly ICopyFailure[];
  /** How many links to folders were left out. */
  readonly links: number;
}

interface IEnd {
  readonly failures: readonly ICopyFailure[];
  readonly failureCount: number;
  readonly links: number;
}

/** Lets the Jupyter server copy, so that the bytes do not pass the browser. Throws an `AbortError` when cancelled. */
export async function copyOnServer(
  server: IJupyterServer,
  copy: IServerCopy,
  { signal, onProgress }: ICopyOptions
): Promise<ICopyResult> {
  const init = { method: 'POST', body: JSON.stringify(copy), headers: { 'Content-Type': 'application/json' }, signal };
  const response = await checkResponse(await server.request(['copies'], init));
  for await (const { name, data } of readEvents(response)) {
    signal.throwIfAborted();
    if (name === 'progress') {
      onProgress?.(data as ICopyProgress);
    } else if (name === 'end') {
      const { failures, links } = data as IEnd;
      return { failures: failures.map(each => ({ ...each, name: basename(each.name) })), links };
    }
  }
  signal.throwIfAborted();
  throw new SandboxError('unavailable', trans.__('The Jupyter server broke the copy off.'));
}

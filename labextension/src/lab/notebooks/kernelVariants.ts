import { readJson } from '../../components/responses';
import type { IJupyterServer } from '../../components/jupyterServer';

/** How kernels of an installed specification run in sandboxes. */
export interface IKernelVariant {
  /** The specification with which they do. */
  readonly kernel: string;
  /** Whether it is installed, so that the user was asked before. */
  readonly isThere: boolean;
  /** Folders of the server's machine that their sandboxes see read-only. */
  readonly shown: readonly string[];
}

/** Asks the server how kernels of a specification run in sandboxes; rejects with the reason if they cannot. */
export async function findVariant(server: IJupyterServer, kernel: string): Promise<IKernelVariant> {
  return readJson<IKernelVariant>(await server.request(['kernelspecs', kernel]));
}

/** Installs the variant, after the user has agreed to what it shows, and returns the name of its specification. */
export async function installVariant(server: IJupyterServer, kernel: string, shown: readonly string[]): Promise<string> {
  const answer = await server.request(['kernelspecs', kernel], { method: 'POST', body: JSON.stringify({ shown }) });
  return (await readJson<IKernelVariant>(answer)).kernel;
}

import type { SandboxApi } from '../../components/sandboxApi';
import type { KernelVariant } from '../../protocol/api';

/** Asks the server how kernels of a specification run in sandboxes; rejects with the reason if they cannot. */
export function findVariant(api: SandboxApi, kernel: string): Promise<KernelVariant> {
  return api.get('/kernelspecs/{name}', { path: { name: kernel } });
}

/** Installs the variant, after the user has agreed to what it shows, and returns the name of its specification. */
export async function installVariant(api: SandboxApi, kernel: string, shown: readonly string[]): Promise<string> {
  return (await api.post('/kernelspecs/{name}', { path: { name: kernel }, body: { shown } })).kernel;
}

import type { KernelSpec } from '@jupyterlab/services';
import type { ReadonlyPartialJSONObject } from '@lumino/coreutils';

/** The kernel specifications of the server. */
export type ISpecs = Pick<KernelSpec.IManager, 'specs'>;

/** Whether kernels with these metadata of their specification run in sandboxes. */
export function isSandboxed(metadata: ReadonlyPartialJSONObject | undefined): boolean {
  const provisioner = metadata?.['kernel_provisioner'] as { provisioner_name?: string } | undefined;
  return provisioner?.provisioner_name === 'sbx-provisioner';
}

/** Whether kernels of a specification run in sandboxes. */
export function runsInSandbox(specs: ISpecs, kernel: string | undefined): boolean {
  return kernel !== undefined && isSandboxed(specs.specs?.kernelspecs[kernel]?.metadata);
}

/** The first specification for a language whose kernels run in sandboxes; Python for an empty language. */
export function sandboxedKernel(specs: ISpecs, language: string): string | undefined {
  const wanted = (language === '' ? 'python' : language).toLowerCase();
  const found = Object.values(specs.specs?.kernelspecs ?? {}).find(
    spec => spec !== undefined && isSandboxed(spec.metadata) && spec.language.toLowerCase() === wanted
  );
  return found?.name;
}

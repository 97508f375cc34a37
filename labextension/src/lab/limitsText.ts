import { formatBytes } from '../components/format';
import { trans } from '../components/translation';
import type { ISandbox } from '../protocol/sandboxes';

/** The limits of a sandbox, and that programs in it may show those of the machine; empty if it is not known. */
export function limitsText(sandbox: Pick<ISandbox, 'cpuCount' | 'memoryMB' | 'diskSizeMB'> | undefined): string {
  if (sandbox === undefined) {
    return '';
  }
  const { cpuCount, memoryMB, diskSizeMB } = sandbox;
  const parts = [
    cpuCount === 1 ? trans.__('1 core') : trans.__('%1 cores', cpuCount),
    trans.__('%1 of memory', formatBytes(memoryMB * 2 ** 20)),
    ...(diskSizeMB === undefined ? [] : [trans.__('%1 of disk', formatBytes(diskSizeMB * 2 ** 20))])
  ];
  return trans.__('Limits: %1. Inside, top, free and df may show the figures of the whole machine.', parts.join(', '));
}

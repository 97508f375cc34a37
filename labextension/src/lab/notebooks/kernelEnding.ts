import { isJson } from '../widgets/widgetStates';

/** The comm on which the server says why the kernel of a notebook has ended. */
export const ENDINGS = 'sbx-jupyter:kernel-ended';

/** Why a kernel in a sandbox has ended. */
export interface IKernelEnding {
  readonly cause: 'memory' | 'time';
  /** MiB that the sandbox has, if known. */
  readonly memoryMB: number | undefined;
}

/** Reads a message; `undefined` for all others, and for ends that a larger sandbox would not prevent. */
export function parseEnding(type: string, content: unknown): IKernelEnding | undefined {
  if (type !== 'comm_msg' || !isJson(content) || content['comm_id'] !== ENDINGS || !isJson(content['data'])) {
    return undefined;
  }
  const { cause, memoryMB } = content['data'];
  if (cause !== 'memory' && cause !== 'time') {
    return undefined;
  }
  return { cause, memoryMB: typeof memoryMB === 'number' ? memoryMB : undefined };
}

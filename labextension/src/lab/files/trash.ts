import { basename } from '../../components/files/paths';
import { trans } from '../../components/translation';
import type { ServerTransport } from '../../components/serverTransport';
import { SandboxError } from '../../protocol/errors';

/** The trash folder of desktop programs on Linux, here that of the sandbox's user. */
export const TRASH = '/home/user/.local/share/Trash';

/** Something that was moved to the trash of its sandbox, and can be put back. */
export interface ITrashed {
  /** The path from which it was deleted. */
  readonly path: string;
  /** Its path in the trash. */
  readonly stored: string;
  /** The file that says where it was. */
  readonly info: string;
}

export const isInTrash = (path: string): boolean => path === TRASH || path.startsWith(`${TRASH}/`);

/** Moves an entry into the trash of its sandbox, in the format that desktop programs read. */
export async function moveToTrash(transport: ServerTransport, path: string): Promise<ITrashed> {
  const name = basename(path);
  // The time makes the name unique, so that nothing in the trash is replaced.
  const unique = (await exists(transport, `${TRASH}/files/${name}`)) ? `${name}.${Date.now()}` : name;
  const trashed = { path, stored: `${TRASH}/files/${unique}`, info: `${TRASH}/info/${unique}.trashinfo` };
  await transport.move(path, trashed.stored);
  await transport.write(trashed.info, new TextEncoder().encode(infoText(path, new Date())));
  return trashed;
}

/** Puts something back where it was; refuses to replace what is there now. */
export async function putBack(transport: ServerTransport, trashed: ITrashed): Promise<void> {
  if (await exists(transport, trashed.path)) {
    throw new SandboxError('already_exists', trans.__('%1 exists again.', trashed.path));
  }
  await transport.move(trashed.stored, trashed.path);
  await transport.remove(trashed.info);
}

/** Whether there is an entry at a path; a link is one, wherever it leads. */
export async function exists(transport: ServerTransport, path: string): Promise<boolean> {
  try {
    await transport.stat(path);
    return true;
  } catch (reason) {
    if (reason instanceof SandboxError && reason.code === 'not_found') {
      return false;
    }
    throw reason;
  }
}

function infoText(path: string, now: Date): string {
  const encoded = path.split('/').map(encodeURIComponent).join('/');
  return `[Trash Info]\nPath=${encoded}\nDeletionDate=${now.toISOString().slice(0, 19)}\n`;
}

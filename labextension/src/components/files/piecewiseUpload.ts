import { SandboxError } from '../../protocol/errors';
import type { IEntryInfo } from '../../protocol/runtime';
import { sizeOf } from '../../protocol/runtime';
import { dirname, joinPath } from './paths';
import type { IUploadOptions } from './upload';
import { isAbort } from './upload';

/** Bytes that one request carries. */
const PIECE = 32 * 1024 * 1024;
/** Attempts to send a piece before the upload fails. */
const TRIES = 4;
/** Milliseconds before a piece is sent again, doubled each time. */
const PAUSE = 1000;
const NAME_LENGTH = 60;

/** The methods of a sandbox that an upload in pieces needs. */
export interface IPieceTarget {
  list(path: string): Promise<readonly IEntryInfo[]>;
  send(path: string, piece: Blob, options: IUploadOptions): Promise<void>;
  /** Joins files to one and removes them. */
  compose(sources: readonly string[], destination: string, size: number): Promise<void>;
  remove(path: string): Promise<void>;
}

/**
 * Uploads a file in pieces, which are joined in the sandbox.
 *
 * A piece that fails is sent again. When the upload fails in spite of that, the pieces stay, and the
 * next upload of the same file to the same place sends only those that are missing.
 */
export async function uploadInPieces(
  target: IPieceTarget,
  path: string,
  file: File,
  { onProgress, signal }: IUploadOptions,
  pieceSize = PIECE,
  pause = PAUSE
): Promise<void> {
  const folder = folderFor(path, file);
  const count = Math.ceil(file.size / pieceSize);
  const names = Array.from({ length: count }, (_, number) => joinPath(folder, String(number).padStart(5, '0')));
  const known = await sizes(target, folder);
  let done = 0;
  try {
    for (const [number, name] of names.entries()) {
      signal?.throwIfAborted();
      const piece = file.slice(number * pieceSize, (number + 1) * pieceSize);
      if (known.get(name) !== piece.size) {
        const before = done;
        const report = (sent: number) => onProgress?.(before + Math.min(sent, piece.size), file.size);
        await sendAgain(() => target.send(name, piece, { onProgress: report, ...(signal && { signal }) }), pause, signal);
      }
      done += piece.size;
      onProgress?.(done, file.size);
    }
    await target.compose(names, path, file.size);
  } catch (reason) {
    if (isAbort(reason)) {
      await target.remove(folder).catch(() => undefined);
    }
    throw reason;
  }
  await target.remove(folder);
}

async function sizes(target: IPieceTarget, folder: string): Promise<ReadonlyMap<string, number>> {
  try {
    return new Map((await target.list(folder)).map(entry => [joinPath(folder, entry.name), sizeOf(entry)]));
  } catch (reason) {
    if (reason instanceof SandboxError && reason.code === 'not_found') {
      return new Map();
    }
    throw reason;
  }
}

/** Sends until it succeeds; only a lost connection is worth another try. */
async function sendAgain(send: () => Promise<void>, pause: number, signal?: AbortSignal): Promise<void> {
  for (let tries = 1; ; tries += 1) {
    try {
      await send();
      return;
    } catch (reason) {
      const isLost = reason instanceof TypeError || (reason instanceof SandboxError && ['network', 'unavailable'].includes(reason.code));
      if (!isLost || tries === TRIES) {
        throw reason;
      }
    }
    await new Promise(resolve => window.setTimeout(resolve, pause * 2 ** (tries - 1)));
    signal?.throwIfAborted();
  }
}

/** A hidden folder beside the file, the same for each upload of this file to this place. */
function folderFor(path: string, file: File): string {
  const mark = hash(`${path}\0${file.size}\0${file.lastModified}`);
  return joinPath(dirname(path), `.${file.name.slice(0, NAME_LENGTH)}.upload-${mark}`);
}

/** FNV-1a; that of the browser is not there on pages without TLS. */
function hash(text: string): string {
  let value = 0x811c9dc5;
  for (const byte of new TextEncoder().encode(text)) {
    value = Math.imul(value ^ byte, 0x01000193) >>> 0;
  }
  return value.toString(16).padStart(8, '0');
}

import type { Contents, ServerConnection as Connection } from '@jupyterlab/services';
import { ServerConnection } from '@jupyterlab/services';

import { joinPath } from '../../components/files/paths';
import { answered, checkResponse } from '../../components/responses';
import type { ServerTransport } from '../../components/serverTransport';
import type { IUploadOptions } from '../../components/files/upload';
import { SandboxError } from '../../protocol/errors';
import { isDirectory, isLink, sizeOf } from '../../protocol/runtime';
import { toBase64 } from '../files/driveContent';

/** Bytes that one request to JupyterLab's contents carries, before base64. */
const CHUNK = 1024 * 1024;

/** One entry of a directory, as far as a copy must know it. */
export interface ICopyEntry {
  readonly name: string;
  readonly path: string;
  readonly kind: 'file' | 'directory' | 'link to a directory';
  /** Bytes; 0 for directories. */
  readonly size: number;
}

/** Somewhere with files that can be copied to and from. */
export interface ICopyPlace {
  /** The entry at `path`, or `null` if there is none. */
  find(path: string): Promise<ICopyEntry | null>;
  list(path: string): Promise<readonly ICopyEntry[]>;
  read(path: string, signal: AbortSignal): Promise<Blob>;
  /** Writes a file, also over one that exists. */
  write(path: string, content: Blob, options: IUploadOptions): Promise<void>;
  /** Makes a directory, unless it exists. */
  makeDir(path: string): Promise<void>;
}

/** The files of a sandbox. */
export class SandboxPlace implements ICopyPlace {
  constructor(private readonly transport: ServerTransport) {}

  async find(path: string): Promise<ICopyEntry | null> {
    try {
      return sandboxEntry(path, await this.transport.stat(path));
    } catch (reason) {
      return absent(reason);
    }
  }

  async list(path: string): Promise<readonly ICopyEntry[]> {
    return (await this.transport.list(path)).map(entry => sandboxEntry(joinPath(path, entry.name), entry));
  }

  read(path: string, signal: AbortSignal): Promise<Blob> {
    return this.transport.readBlob(path, signal);
  }

  write(path: string, content: Blob, options: IUploadOptions): Promise<void> {
    return this.transport.upload(path, content, options);
  }

  async makeDir(path: string): Promise<void> {
    if ((await this.find(path)) === null) {
      await this.transport.makeDir(path);
    }
  }
}

function sandboxEntry(path: string, entry: Parameters<typeof sizeOf>[0]): ICopyEntry {
  const directory = isDirectory(entry);
  const kind = !directory ? 'file' : isLink(entry) ? 'link to a directory' : 'directory';
  return { name: entry.name, path, kind, size: directory ? 0 : sizeOf(entry) };
}

/** The files of the Jupyter server, or of another drive of JupyterLab. */
export class ContentsPlace implements ICopyPlace {
  constructor(
    private readonly contents: Contents.IManager,
    private readonly settings: Connection.ISettings
  ) {}

  async find(path: string): Promise<ICopyEntry | null> {
    try {
      return contentsEntry(await this.contents.get(path, { content: false }));
    } catch (reason) {
      return absent(reason);
    }
  }

  async list(path: string): Promise<readonly ICopyEntry[]> {
    const model = await this.contents.get(path, { type: 'directory', content: true });
    return (model.content as Contents.IModel[]).map(contentsEntry);
  }

  async read(path: string, signal: AbortSignal): Promise<Blob> {
    const url = await this.contents.getDownloadUrl(path);
    const response = await checkResponse(await answered(ServerConnection.makeRequest(url, { signal }, this.settings)));
    return response.blob();
  }

  async write(path: string, content: Blob, options: IUploadOptions): Promise<void> {
    try {
      await this.writeParts(path, content, options);
    } catch (reason) {
      if (content.size > CHUNK) {
        // The beginning of a file would look like the whole.
        await this.contents.delete(path).catch(() => undefined);
      }
      throw reason;
    }
  }

  private async writeParts(path: string, content: Blob, { onProgress, signal }: IUploadOptions): Promise<void> {
    const parts = Math.max(1, Math.ceil(content.size / CHUNK));
    for (let part = 1; part <= parts; part += 1) {
      signal?.throwIfAborted();
      const bytes = new Uint8Array(await content.slice((part - 1) * CHUNK, part * CHUNK).arrayBuffer());
      // The last chunk has the number -1; a file that fits in one has none.
      const chunk = parts === 1 ? {} : { chunk: part === parts ? -1 : part };
      await this.contents.save(path, { type: 'file', format: 'base64', content: toBase64(bytes), ...chunk });
      onProgress?.(Math.min(part * CHUNK, content.size), content.size);
    }
  }

  async makeDir(path: string): Promise<void> {
    await this.contents.save(path, { type: 'directory' });
  }
}

function contentsEntry({ name, path, type, size }: Contents.IModel): ICopyEntry {
  return { name, path, kind: type === 'directory' ? 'directory' : 'file', size: size ?? 0 };
}

/** `null` if the reason is that there is no such file; throws any other. */
function absent(reason: unknown): null {
  const isAbsent =
    (reason instanceof SandboxError && reason.code === 'not_found') ||
    (reason instanceof ServerConnection.ResponseError && reason.response.status === 404);
  if (isAbsent) {
    return null;
  }
  throw reason;
}

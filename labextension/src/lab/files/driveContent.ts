import type { Contents } from '@jupyterlab/services';

import { trans } from '../../components/translation';
import { SandboxError } from '../../protocol/errors';

type Content = Pick<Contents.IModel, 'content' | 'format' | 'mimetype' | 'type'>;

/** A file's bytes in the form that JupyterLab asked for: a notebook, text or base64. */
export function contentFromBytes(
  bytes: Uint8Array,
  type: string,
  format: Contents.FileFormat | null,
  mimetype: string
): Content {
  if (type === 'notebook') {
    return { type, format: 'json', mimetype, content: notebookFrom(decoded(bytes)) };
  }
  if (format !== 'base64') {
    const text = decoded(bytes);
    if (text !== null) {
      return { type: 'file', format: 'text', mimetype, content: text };
    }
    if (format === 'text') {
      throw new SandboxError('invalid_argument', trans.__('The file is not UTF-8 text.'));
    }
  }
  const binary = mimetype === 'text/plain' ? 'application/octet-stream' : mimetype;
  return { type: 'file', format: 'base64', mimetype: binary, content: toBase64(bytes) };
}

function notebookFrom(text: string | null): unknown {
  try {
    return JSON.parse(text ?? '');
  } catch {
    throw new SandboxError('invalid_argument', trans.__('The file is not a notebook.'));
  }
}

function decoded(bytes: Uint8Array): string | null {
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    // The caller treats it as binary.
    return null;
  }
}

/** Converts content that JupyterLab saves to bytes. */
export function bytesFromContent(content: unknown, format: Contents.FileFormat | null): Uint8Array {
  if (format === 'base64') {
    return Uint8Array.from(atob(String(content)), character => character.charCodeAt(0));
  }
  const text = typeof content === 'string' ? content : `${JSON.stringify(content ?? '', null, 1)}\n`;
  return new TextEncoder().encode(text);
}

/** Encodes base64 in slices: a whole file as arguments of one call would overflow the stack. */
export function toBase64(bytes: Uint8Array): string {
  let binary = '';
  for (let start = 0; start < bytes.length; start += 0x8000) {
    binary += String.fromCharCode(...bytes.subarray(start, start + 0x8000));
  }
  return btoa(binary);
}

/** Joins the chunks of large uploads, which JupyterLab numbers from 1 and ends with -1. */
export class ChunkedUploads {
  /** Adds a chunk; returns the whole file after the last one, else `null`. */
  add(path: string, bytes: Uint8Array, chunk: number | undefined): Uint8Array | null {
    if (chunk === undefined) {
      return bytes;
    }
    const parts = chunk === 1 ? [] : (this.parts.get(path) ?? []);
    parts.push(bytes);
    if (chunk !== -1) {
      this.parts.set(path, parts);
      return null;
    }
    this.parts.delete(path);
    const whole = new Uint8Array(parts.reduce((total, part) => total + part.length, 0));
    let offset = 0;
    for (const part of parts) {
      whole.set(part, offset);
      offset += part.length;
    }
    return whole;
  }

  private readonly parts = new Map<string, Uint8Array[]>();
}

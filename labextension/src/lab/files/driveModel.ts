import type { Contents } from '@jupyterlab/services';

import type { IEntryInfo } from '../../protocol/runtime';
import { isDirectory, sizeOf } from '../../protocol/runtime';
import type { ISandbox } from '../../protocol/sandboxes';

/** Finds the type of a file by its path. */
export type IDescribe = (path: string) => { readonly type: string; readonly mimetype: string };

/** `<sandbox id>/<path>`; the root of the drive has neither. */
export function splitPath(localPath: string): { sandboxId: string; path: string } {
  const clean = localPath.replace(/^\/+/, '');
  const slash = clean.indexOf('/');
  return slash < 0
    ? { sandboxId: clean, path: '/' }
    : { sandboxId: clean.slice(0, slash), path: clean.slice(slash) };
}

/** The drive's top level: one directory per sandbox. */
export function rootModel(sandboxes: readonly ISandbox[]): Contents.IModel {
  const content = sandboxes.map(sandbox => ({
    ...base(sandbox.sandboxID, sandbox.sandboxID, sandbox.startedAt),
    type: 'directory',
    mimetype: '',
    writable: false
  }));
  const now = new Date().toISOString();
  return { ...base('', '', now), type: 'directory', mimetype: '', content, format: 'json', writable: false };
}

/** One entry without its content. */
export function entryModel(localPath: string, entry: IEntryInfo, describe: IDescribe): Contents.IModel {
  const modified = entry.modifiedTime ?? new Date(0).toISOString();
  const model = base(entry.name, localPath, modified);
  if (isDirectory(entry)) {
    return { ...model, type: 'directory', mimetype: '' };
  }
  return { ...model, ...describe(localPath), size: sizeOf(entry) };
}

function base(name: string, path: string, modified: string): Contents.IModel {
  return {
    name,
    path,
    type: 'file',
    content: null,
    format: null,
    mimetype: 'text/plain',
    created: modified,
    last_modified: modified,
    writable: true
  };
}

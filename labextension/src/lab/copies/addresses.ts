import { DRIVE_NAME } from '../files/drive';
import { splitPath } from '../files/driveModel';

/** A place and a path in it, from a path as JupyterLab writes it. */
export interface IAddress {
  /** Names the place: the same for all paths between which JupyterLab itself can move files. */
  readonly place: string;
  /** The sandbox, if it is one. */
  readonly sandboxId: string | null;
  /** The path in the place. */
  readonly path: string;
}

/** Reads `sbx:<sandbox id>/<path>`, or a path of JupyterLab's contents. */
export function addressOf(globalPath: string): IAddress {
  const prefix = `${DRIVE_NAME}:`;
  if (globalPath.startsWith(prefix)) {
    const { sandboxId, path } = splitPath(globalPath.slice(prefix.length));
    return { place: `${prefix}${sandboxId}`, sandboxId, path };
  }
  return { place: '', sandboxId: null, path: globalPath };
}

/** A path as JupyterLab writes it. */
export function globalPath(sandboxId: string, path: string): string {
  return `${DRIVE_NAME}:${sandboxId}${path.startsWith('/') ? path : `/${path}`}`;
}

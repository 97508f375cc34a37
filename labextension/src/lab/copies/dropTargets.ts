import type { MimeData } from '@lumino/coreutils';

/** The format in which JupyterLab's file browsers describe dragged files. */
const CONTENTS = 'application/x-jupyter-icontents';
const OVER = 'sbx-mod-dropTarget';

/** An event of a drag inside the page, as Lumino sends it. */
export interface IDragEvent extends MouseEvent {
  readonly mimeData: MimeData;
  readonly proposedAction: string;
  dropAction: string;
}

/** The place to which dragged files would be copied. */
export interface IDropPlace {
  /** The element that is highlighted. */
  readonly node: HTMLElement;
  /** A path as JupyterLab writes it. */
  readonly directory: string;
}

/** Finds the place below the pointer. */
export type FindPlace = (event: IDragEvent) => IDropPlace | null;

/** Lets files be dropped where JupyterLab itself does not take them; returns a function that stops it. */
export function acceptDrops(
  find: FindPlace,
  isForeign: (path: string, directory: string) => boolean,
  copy: (paths: readonly string[], directory: string) => void
): () => void {
  let marked: HTMLElement | null = null;
  const mark = (node: HTMLElement | null) => {
    marked?.classList.remove(OVER);
    marked = node;
    marked?.classList.add(OVER);
  };
  const onDrag = (raw: Event) => {
    const event = raw as IDragEvent;
    const paths = pathsOf(event);
    const place = paths.length === 0 ? null : find(event);
    const foreign = place === null ? [] : paths.filter(path => isForeign(path, place.directory));
    const isTaken = place !== null && foreign.length > 0 && event.type !== 'lm-dragleave';
    mark(isTaken && event.type !== 'lm-drop' ? place.node : null);
    if (!isTaken) {
      return;
    }
    event.preventDefault();
    event.stopPropagation();
    event.dropAction = event.proposedAction;
    if (event.type === 'lm-drop') {
      copy(foreign, place.directory);
    }
  };
  // On the way down, before the browsers, which take only what is dropped on a folder.
  const types = ['lm-dragenter', 'lm-dragover', 'lm-dragleave', 'lm-drop'];
  for (const type of types) {
    document.addEventListener(type, onDrag, true);
  }
  return () => {
    for (const type of types) {
      document.removeEventListener(type, onDrag, true);
    }
    mark(null);
  };
}

function pathsOf({ mimeData }: IDragEvent): readonly string[] {
  const paths: unknown = mimeData.hasData(CONTENTS) ? mimeData.getData(CONTENTS) : [];
  return Array.isArray(paths) ? paths.filter(path => typeof path === 'string') : [];
}

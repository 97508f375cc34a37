import type { IChange } from '../../protocol/observations';

/** A directory or file of the tree of changes. */
export interface IChangeNode {
  /** Its name; of directories that lead to only one other, their path: `usr/local/lib`. */
  readonly name: string;
  readonly path: string;
  /** `null` for a directory that did not change itself. */
  readonly change: IChange | null;
  readonly children: readonly IChangeNode[];
  /** Number of changed paths in it, itself included. */
  readonly count: number;
}

interface IDraft {
  readonly path: string;
  change: IChange | null;
  readonly children: Map<string, IDraft>;
}

/** Sorts changes into a tree, directories first; directories in a row become one node. */
export function changeTree(changes: readonly IChange[]): readonly IChangeNode[] {
  const root: IDraft = { path: '', change: null, children: new Map() };
  for (const change of changes) {
    let node = root;
    for (const part of change.path.split('/').filter(Boolean)) {
      let next = node.children.get(part);
      if (next === undefined) {
        next = { path: `${node.path}/${part}`, change: null, children: new Map() };
        node.children.set(part, next);
      }
      node = next;
    }
    node.change = change;
  }
  return finish(root);
}

/** The changes of a directory and of what is in it; all of them for an empty path. */
export function changesIn(changes: readonly IChange[], folder: string): readonly IChange[] {
  const inside = `${folder.replace(/\/+$/, '')}/`;
  return inside === '/' ? changes : changes.filter(({ path }) => `${path}/`.startsWith(inside));
}

/** The nodes that are shown while the directories in `closed` are closed, each with its depth from 1. */
export function visibleNodes(
  nodes: readonly IChangeNode[],
  closed: ReadonlySet<string>,
  depth = 1
): readonly { readonly node: IChangeNode; readonly depth: number }[] {
  return nodes.flatMap(node => [
    { node, depth },
    ...(closed.has(node.path) ? [] : visibleNodes(node.children, closed, depth + 1))
  ]);
}

/** The paths of the directories in a tree. */
export function directoriesOf(nodes: readonly IChangeNode[]): readonly string[] {
  return nodes.flatMap(node => (node.children.length === 0 ? [] : [node.path, ...directoriesOf(node.children)]));
}

function finish(draft: IDraft): readonly IChangeNode[] {
  return [...draft.children]
    .map(([name, child]) => join(name, child))
    .sort(
      (one, other) =>
        Number(one.children.length === 0) - Number(other.children.length === 0) || one.name.localeCompare(other.name)
    );
}

function join(name: string, draft: IDraft): IChangeNode {
  let [path, node] = [name, draft];
  // A directory that only leads to another is not worth a line of its own.
  while (node.change === null && node.children.size === 1) {
    const [[next, only]] = [...node.children] as [[string, IDraft]];
    if (only.children.size === 0) {
      break;
    }
    [path, node] = [`${path}/${next}`, only];
  }
  const children = finish(node);
  const count = children.reduce((sum, child) => sum + child.count, node.change === null ? 0 : 1);
  return { name: path, path: node.path, change: node.change, children, count };
}

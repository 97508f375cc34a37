/** A click or key on a row. */
export interface IPick {
  readonly id: string;
  /** Ctrl or Cmd: adds or removes the row. */
  readonly toggles?: boolean;
  /** Shift: takes all rows from the last one that was chosen. */
  readonly extends?: boolean;
}

/** The rows that are chosen together, and the one from which Shift counts. */
export interface ISelection {
  readonly ids: ReadonlySet<string>;
  readonly anchor: string | null;
}

export const NOTHING: ISelection = { ids: new Set(), anchor: null };

/** The selection after a row was picked; `shown` are the ids of the rows from top to bottom. */
export function picked(selection: ISelection, pick: IPick, shown: readonly string[]): ISelection {
  const { id } = pick;
  if (pick.extends === true && selection.anchor !== null) {
    const [from, to] = [shown.indexOf(selection.anchor), shown.indexOf(id)].sort((one, other) => one - other) as [number, number];
    return from < 0 ? { ids: new Set([id]), anchor: id } : { ids: new Set(shown.slice(from, to + 1)), anchor: selection.anchor };
  }
  if (pick.toggles === true) {
    const ids = new Set(selection.ids);
    if (!ids.delete(id)) {
      ids.add(id);
    }
    return { ids, anchor: id };
  }
  return { ids: new Set(), anchor: id };
}

/** The selection without rows that are not shown any more; the same object if all are. */
export function remaining(selection: ISelection, shown: readonly string[]): ISelection {
  const there = new Set(shown);
  const ids = [...selection.ids].filter(id => there.has(id));
  return ids.length === selection.ids.size ? selection : { ...selection, ids: new Set(ids) };
}

import * as React from 'react';

/** The row that has the focus, and its place. */
interface IFocused {
  readonly id: string;
  readonly at: number;
}

/** Handlers for the element around the rows. */
interface IFocusHandlers {
  readonly onFocus: (event: React.FocusEvent) => void;
  readonly onBlur: () => void;
}

/**
 * Keeps the focus in a list of sandboxes whose rows move and disappear.
 *
 * A browser takes the focus from an element that is moved or removed. It goes back to the same row; to the
 * row that took its place; or, with the last one gone, to the button of the empty panel.
 */
export function useKeptFocus(list: React.RefObject<HTMLElement>, shown: readonly string[]): IFocusHandlers {
  const focused = React.useRef<IFocused | null>(null);
  const places = React.useRef(shown);
  places.current = shown;
  React.useLayoutEffect(() => {
    const last = focused.current;
    if (last === null) {
      return;
    }
    const id = shown.includes(last.id) ? last.id : shown[Math.min(last.at, shown.length - 1)];
    if (id === undefined) {
      return;
    }
    focused.current = { id, at: shown.indexOf(id) };
    const row = rowOf(list.current, id);
    if (row !== null && !row.contains(document.activeElement)) {
      row.focus();
    }
  });
  React.useLayoutEffect(() => {
    const panel = list.current?.closest('.sbx-Panel');
    return () => {
      if (focused.current !== null) {
        // The empty panel is drawn by then.
        queueMicrotask(() => panel?.querySelector<HTMLElement>('.sbx-State .sbx-Button')?.focus());
      }
    };
  }, [list]);
  return React.useMemo(
    () => ({
      onFocus: event => {
        const id = event.target.closest<HTMLElement>('[data-sandbox]')?.dataset['sandbox'];
        focused.current = id === undefined ? null : { id, at: places.current.indexOf(id) };
      },
      // React reports none for rows that it moves or removes itself.
      onBlur: () => {
        focused.current = null;
      }
    }),
    []
  );
}

function rowOf(list: HTMLElement | null, id: string): HTMLElement | null {
  return list?.querySelector<HTMLElement>(`[data-sandbox="${CSS.escape(id)}"]`) ?? null;
}

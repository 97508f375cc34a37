/** The parts of a notebook panel that are used here. */
interface INotebookPanel {
  readonly content: {
    readonly widgets: readonly ICell[];
    activeCellIndex: number;
    mode: string;
    scrollToItem(index: number): Promise<void>;
  };
}

interface ICell {
  readonly model: { readonly executionCount?: number | null };
  readonly editor: {
    setCursorPosition(position: { line: number; column: number }): void;
    focus(): void;
  } | null;
}

/** The cell and the line that a link names, as `#sbx-cell=3&line=2`. */
export function parseCellLink(hash: string): { cell: number; line: number } | undefined {
  const found = /^#sbx-cell=(\d{1,6})&line=(\d{1,6})$/.exec(hash);
  return found === null ? undefined : { cell: Number(found[1]), line: Number(found[2]) };
}

/** Moves to a line of the cell with a number; does nothing if the notebook has no such cell. */
export function showCellLine(panel: object, hash: string): void {
  const target = parseCellLink(hash);
  if (target === undefined || !isNotebookPanel(panel)) {
    return;
  }
  const { content } = panel;
  const index = content.widgets.findIndex(cell => cell.model.executionCount === target.cell);
  const cell = content.widgets[index];
  if (cell === undefined) {
    return;
  }
  content.activeCellIndex = index;
  void content.scrollToItem(index).then(() => {
    content.mode = 'edit';
    cell.editor?.setCursorPosition({ line: target.line - 1, column: 0 });
    cell.editor?.focus();
  });
}

function isNotebookPanel(panel: object): panel is INotebookPanel {
  return 'content' in panel && 'widgets' in (panel.content as object);
}

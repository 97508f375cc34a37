/** Removes claims of notebooks on which JupyterLab would act, and which code in a sandbox may have written. */

type Fields = Record<string, unknown>;

/** Notebooks whose widget state is kept; the oldest is forgotten first. */
const MAX_KEPT = 200;

/**
 * Removes trust from notebooks on their way into the page, and from files on their way back.
 *
 * JupyterLab runs scripts in the outputs of a cell whose metadata says `trusted`, and loads the code that
 * saved widget state names even where no cell is trusted. Widget state is therefore kept here while the
 * notebook is open, and put back when it is saved.
 */
export class NotebookTrust {
  /** The notebook without trust and without widget state. */
  opened(path: string, notebook: unknown): unknown {
    const clean = withoutTrust(notebook);
    if (isFields(clean) && isFields(clean['metadata']) && 'widgets' in clean['metadata']) {
      const { widgets, ...metadata } = clean['metadata'];
      this.keep(path, widgets);
      return { ...clean, metadata };
    }
    this.widgets.delete(path);
    return clean;
  }

  /** The notebook as it is written: without trust, and with the widget state that it had. */
  saved(path: string, notebook: unknown): unknown {
    const clean = withoutTrust(notebook);
    if (!isFields(clean) || !this.widgets.has(path)) {
      return clean;
    }
    const metadata = isFields(clean['metadata']) ? clean['metadata'] : {};
    return 'widgets' in metadata ? clean : { ...clean, metadata: { ...metadata, widgets: this.widgets.get(path) } };
  }

  /** Follows a notebook to its new name. */
  renamed(from: string, to: string): void {
    if (this.widgets.has(from)) {
      this.keep(to, this.widgets.get(from));
      this.widgets.delete(from);
    }
  }

  private keep(path: string, widgets: unknown): void {
    this.widgets.delete(path);
    this.widgets.set(path, widgets);
    const [oldest] = this.widgets.keys();
    if (this.widgets.size > MAX_KEPT && oldest !== undefined) {
      this.widgets.delete(oldest);
    }
  }

  private readonly widgets = new Map<string, unknown>();
}

function withoutTrust(notebook: unknown): unknown {
  if (!isFields(notebook) || !Array.isArray(notebook['cells'])) {
    return notebook;
  }
  return { ...notebook, cells: notebook['cells'].map(cell => cellWithoutTrust(cell)) };
}

function cellWithoutTrust(cell: unknown): unknown {
  if (!isFields(cell) || !isFields(cell['metadata']) || !('trusted' in cell['metadata'])) {
    return cell;
  }
  const metadata = { ...cell['metadata'] };
  delete metadata['trusted'];
  return { ...cell, metadata };
}

function isFields(value: unknown): value is Fields {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** Removes claims of notebooks on which JupyterLab would act, and which code in a sandbox may have written. */

import { isJson } from '../widgets/widgetStates';
import { withHeldOutputs, withoutHeldOutputs } from './heldOutputs';

/** Notebooks whose widget state is kept; the oldest is forgotten first. */
const MAX_KEPT = 200;

/**
 * Removes trust from notebooks on their way into the page, and from files on their way back.
 *
 * JupyterLab runs scripts in the outputs of a cell whose metadata says `trusted`, and loads the code that
 * saved widget state names even where no cell is trusted. Widget state is therefore kept here while the
 * notebook is open, and put back when it is saved. So are formats of outputs that an extension would draw
 * without trust, such as Vega; these are kept with the output.
 */
export class NotebookTrust {
  /** The notebook without trust, without widget state and with passive formats of outputs only. */
  opened(path: string, notebook: unknown): unknown {
    const clean = withCells(notebook, cell => withHeldOutputs(cellWithoutTrust(cell)));
    if (isJson(clean) && isJson(clean['metadata']) && 'widgets' in clean['metadata']) {
      const { widgets, ...metadata } = clean['metadata'];
      this.keep(path, widgets);
      return { ...clean, metadata };
    }
    this.widgets.delete(path);
    return clean;
  }

  /** The notebook as it is written: without trust, and with the widget state and the outputs that it had. */
  saved(path: string, notebook: unknown): unknown {
    const clean = withCells(notebook, cell => withoutHeldOutputs(cellWithoutTrust(cell)));
    if (!isJson(clean) || !this.widgets.has(path)) {
      return clean;
    }
    const metadata = isJson(clean['metadata']) ? clean['metadata'] : {};
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

function withCells(notebook: unknown, change: (cell: Record<string, unknown>) => unknown): unknown {
  if (!isJson(notebook) || !Array.isArray(notebook['cells'])) {
    return notebook;
  }
  const cells = notebook['cells'].map((cell: unknown) => (isJson(cell) ? change(cell) : cell));
  return { ...notebook, cells };
}

function cellWithoutTrust(cell: Record<string, unknown>): Record<string, unknown> {
  if (!isJson(cell['metadata']) || !('trusted' in cell['metadata'])) {
    return cell;
  }
  const metadata = { ...cell['metadata'] };
  delete metadata['trusted'];
  return { ...cell, metadata };
}

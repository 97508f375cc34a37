/** The CSS variables of the colours: JupyterLab's, else VS Code's, else a light default. */
const SOURCES = {
  background: ['--jp-layout-color0', '--vscode-editor-background', '#ffffff'],
  foreground: ['--jp-ui-font-color0', '--vscode-editor-foreground', '#212121'],
  muted: ['--jp-ui-font-color2', '--vscode-descriptionForeground', '#757575'],
  grid: ['--jp-border-color2', '--vscode-panel-border', '#e0e0e0'],
  cpu: ['--jp-brand-color1', '--vscode-charts-blue', '#1976d2'],
  memory: ['--jp-success-color1', '--vscode-charts-green', '#388e3c'],
  disk: ['--jp-warn-color1', '--vscode-charts-orange', '#f57c00'],
  fourth: ['--jp-info-color1', '--vscode-charts-purple', '#00acc1'],
  fifth: ['--jp-accent-color1', '--vscode-charts-yellow', '#43a047'],
  limit: ['--jp-error-color1', '--vscode-charts-red', '#d32f2f'],
  selection: ['--jp-editor-selected-background', '--vscode-editor-selectionBackground', '#d7d4f0'],
  monospace: ['--jp-code-font-family', '--vscode-editor-font-family', 'monospace'],
  sans: ['--jp-ui-font-family', '--vscode-font-family', 'system-ui, sans-serif']
} as const;

export type ThemeRole = keyof typeof SOURCES;

/** The colours of lines that stand for several sandboxes, in this order. */
export const SERIES_ROLES: readonly ThemeRole[] = ['cpu', 'disk', 'memory', 'fourth', 'limit', 'fifth'];

/** Colours for drawing on a canvas where the operating system sets the colours. */
const FORCED: Readonly<Partial<Record<ThemeRole, string>>> = { muted: 'CanvasText', grid: 'color-mix(in srgb, CanvasText 30%, transparent)' };

/** Returns the current value of a role on `node`. */
export function themeValue(node: HTMLElement, role: ThemeRole): string {
  const forced = FORCED[role];
  if (forced !== undefined && window.matchMedia('(forced-colors: active)').matches) {
    return forced;
  }
  const [lab, code, fallback] = SOURCES[role];
  const style = getComputedStyle(node);
  return style.getPropertyValue(lab).trim() || style.getPropertyValue(code).trim() || fallback;
}

/** Calls `listener` after the page changes its theme; returns a function that stops it. */
export function onThemeChange(listener: () => void): () => void {
  const observer = new MutationObserver(() => requestAnimationFrame(listener));
  const attributeFilter = ['class', 'data-jp-theme-name', 'data-vscode-theme-kind'];
  observer.observe(document.body, { attributes: true, attributeFilter });
  return () => {
    observer.disconnect();
  };
}

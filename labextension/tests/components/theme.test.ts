import { afterEach, describe, expect, it, vi } from 'vitest';

import { onThemeChange, themeValue } from '../../src/components/theme';
import { waitFor } from '../waiting';

describe('the theme of the page', () => {
  afterEach(() => {
    document.body.removeAttribute('style');
    document.body.removeAttribute('data-jp-theme-name');
  });

  it('comes from JupyterLab, else from VS Code, else it is light', () => {
    expect(themeValue(document.body, 'background')).toBe('#ffffff');
    document.body.style.setProperty('--vscode-editor-background', '#222222');
    expect(themeValue(document.body, 'background')).toBe('#222222');
    document.body.style.setProperty('--jp-layout-color0', '#111111');
    expect(themeValue(document.body, 'background')).toBe('#111111');
  });

  it('is that of the operating system on a canvas, where that sets the colours', () => {
    document.body.style.setProperty('--jp-ui-font-color2', '#333333');
    expect(themeValue(document.body, 'muted')).toBe('#333333');
    const media = vi.spyOn(window, 'matchMedia').mockReturnValue({ matches: true } as MediaQueryList);
    expect(themeValue(document.body, 'muted')).toBe('CanvasText');
    media.mockRestore();
  });

  it('tells when it changes, until that is no longer wanted', async () => {
    let changes = 0;
    const stop = onThemeChange(() => (changes += 1));
    document.body.setAttribute('data-jp-theme-name', 'JupyterLab Dark');
    await waitFor(() => {
      expect(changes).toBe(1);
    });

    stop();
    let later = 0;
    const stopLater = onThemeChange(() => (later += 1));
    document.body.setAttribute('data-jp-theme-name', 'JupyterLab Light');
    await waitFor(() => {
      expect(later).toBe(1);
    });
    stopLater();
    expect(changes).toBe(1);
  });
});

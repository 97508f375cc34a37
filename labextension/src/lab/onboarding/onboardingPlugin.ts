import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';

import { ISandboxCommands } from '../tokens';

/** The key under which the browser remembers, for each Jupyter server, that the panel was shown once. */
const KEY = 'sbx-jupyter:panel-was-shown';
const PANEL = 'sbx-panel';

/** Shows the panel the first time that JupyterLab is opened with this extension. */
export const onboardingPlugin: JupyterFrontEndPlugin<void> = {
  id: 'sbx-jupyter:onboarding',
  description: 'Shows the panel of sandboxes once.',
  autoStart: true,
  // The panel is there when its commands are.
  requires: [ISandboxCommands],
  activate: (app: JupyterFrontEnd) => {
    // Notebook 7 has its side bars closed, and opens one page for each document.
    if (app.name !== 'JupyterLab') {
      return;
    }
    void app.restored.then(() => {
      if (isFirstTime(app.serviceManager.serverSettings.baseUrl)) {
        app.shell.activateById(PANEL);
      }
    });
  }
};

function isFirstTime(server: string): boolean {
  const key = `${KEY}:${server}`;
  try {
    const wasShown = localStorage.getItem(key) !== null;
    localStorage.setItem(key, 'yes');
    return !wasShown;
  } catch {
    // A browser that remembers nothing would show it each time.
    return false;
  }
}

import type { JupyterFrontEndPlugin } from '@jupyterlab/application';

import { filesPlugin } from './filesPlugin';
import { metricsPlugin } from './metricsPlugin';
import { notebookPlugin } from './notebookPlugin';
import { panelPlugin, sandboxesPlugin } from './panelPlugin';
import { runningPlugin } from './runningPlugin';
import { terminalsPlugin } from './terminalsPlugin';
import { untrustedFilesPlugin } from './untrustedFilesPlugin';
import { widgetsPlugin } from './widgetsPlugin';

export { ISandboxes } from './tokens';

const plugins: JupyterFrontEndPlugin<unknown>[] = [
  sandboxesPlugin,
  panelPlugin,
  terminalsPlugin,
  filesPlugin,
  metricsPlugin,
  runningPlugin,
  untrustedFilesPlugin,
  notebookPlugin,
  widgetsPlugin
];

export default plugins;

import type { JupyterFrontEndPlugin } from '@jupyterlab/application';

import { detailsPlugin } from './details/detailsPlugin';
import { copiesPlugin } from './copies/copiesPlugin';
import { filesPlugin } from './files/filesPlugin';
import { helpPlugin } from './help/helpPlugin';
import { metricsPlugin } from './metrics/metricsPlugin';
import { currentNotebookPlugin } from './notebooks/currentNotebookPlugin';
import { drawingPlugin } from './notebooks/drawing/drawingPlugin';
import { largerSandboxPlugin } from './notebooks/largerSandboxPlugin';
import { launcherPlugin } from './notebooks/launcherPlugin';
import { notebookPlugin } from './notebooks/notebookPlugin';
import { runInSandboxPlugin } from './notebooks/runInSandboxPlugin';
import { outputTrustPlugin } from './notebooks/trust/outputTrustPlugin';
import { onboardingPlugin } from './onboarding/onboardingPlugin';
import { apiPlugin, panelPlugin, sandboxesPlugin } from './panel/panelPlugin';
import { runningPlugin } from './panel/runningPlugin';
import { storagePlugin } from './storage/storagePlugin';
import { terminalsPlugin } from './terminals/terminalsPlugin';
import { untrustedFilesPlugin } from './notebooks/trust/untrustedFilesPlugin';
import { widgetsPlugin } from './widgets/widgetsPlugin';

export type { AnswerOf, EventOf, OptionsOf, RouteOf, SandboxApi } from '../components/sandboxApi';
export type * from '../protocol/api';
export { SandboxError } from '../protocol/errors';
export { ISandboxApi, ISandboxes } from './tokens';

const plugins: JupyterFrontEndPlugin<unknown>[] = [
  sandboxesPlugin,
  apiPlugin,
  currentNotebookPlugin,
  panelPlugin,
  helpPlugin,
  onboardingPlugin,
  terminalsPlugin,
  filesPlugin,
  copiesPlugin,
  metricsPlugin,
  detailsPlugin,
  storagePlugin,
  runningPlugin,
  untrustedFilesPlugin,
  notebookPlugin,
  outputTrustPlugin,
  widgetsPlugin,
  drawingPlugin,
  largerSandboxPlugin,
  runInSandboxPlugin,
  launcherPlugin
];

export default plugins;

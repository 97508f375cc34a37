import { Token } from '@lumino/coreutils';

import type { SandboxCommands } from './commands';
import type { Sandboxes } from './sandboxes';

/** The sandboxes that this server knows, for whoever wants to build on them. */
export const ISandboxes = new Token<Sandboxes>(
  'sbx-jupyter:ISandboxes',
  'The sandboxes of this Jupyter server: list, create, pause, kill, and how they are isolated.'
);

/** The command ids, `sbx:verb-noun`. */
export const CommandIDs = {
  create: 'sbx:create',
  createWithOptions: 'sbx:create-with-options',
  openTerminal: 'sbx:open-terminal',
  attachTerminal: 'sbx:attach-terminal',
  endTerminal: 'sbx:end-terminal',
  browseFiles: 'sbx:browse-files',
  openMetrics: 'sbx:open-metrics',
  setTimeout: 'sbx:set-timeout',
  rename: 'sbx:rename',
  pause: 'sbx:pause',
  resume: 'sbx:resume',
  snapshot: 'sbx:snapshot',
  fork: 'sbx:fork',
  removeTemplate: 'sbx:remove-template',
  kill: 'sbx:kill',
  copyId: 'sbx:copy-id',
  refresh: 'sbx:refresh',
  showIsolation: 'sbx:show-isolation'
} as const;

/** Finds the sandbox that a command is about; the other plugins add their commands with it. */
export const ISandboxCommands = new Token<SandboxCommands>(
  'sbx-jupyter:ISandboxCommands',
  'Finds the sandbox that a command is about, and creates sandboxes.'
);

import { Token } from '@lumino/coreutils';

import type { SandboxCommands } from './commands';
import type { Sandboxes } from './sandboxes';

/** The sandboxes that this server knows, for whoever wants to build on them. */
export const ISandboxes = new Token<Sandboxes>(
  'sbx-jupyter:ISandboxes',
  'The sandboxes of this Jupyter server: list, create, pause, kill, and how they are isolated.'
);

/** Finds the sandbox that a command is about; the other plugins add their commands with it. */
export const ISandboxCommands = new Token<SandboxCommands>(
  'sbx-jupyter:ISandboxCommands',
  'Finds the sandbox that a command is about, and creates sandboxes.'
);

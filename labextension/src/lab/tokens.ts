import { Token } from '@lumino/coreutils';

import type { SandboxApi } from '../components/sandboxApi';
import type { CurrentNotebook } from './notebooks/currentNotebook';
import type { SandboxCommands } from './panel/commands';
import type { Sandboxes } from './sandboxes';

/** The sandboxes of this server, for other extensions. */
export const ISandboxes = new Token<Sandboxes>(
  'sbx-jupyter:ISandboxes',
  'The sandboxes of this Jupyter server: list, create, pause, kill, and how they are isolated.'
);

/** The routes of this server, typed, for other extensions. */
export const ISandboxApi = new Token<SandboxApi>(
  'sbx-jupyter:ISandboxApi',
  'The routes of this Jupyter server about sandboxes, with the types of what each takes and answers.'
);

/** Resolves the sandbox of a command; the other plugins register their commands with it. */
export const ISandboxCommands = new Token<SandboxCommands>(
  'sbx-jupyter:ISandboxCommands',
  'Finds the sandbox that a command is about, and creates sandboxes.'
);

/** The document in front and the sandbox of its kernel. */
export const ICurrentNotebook = new Token<CurrentNotebook>(
  'sbx-jupyter:ICurrentNotebook',
  'The sandbox in which the kernel of the document in front runs.'
);

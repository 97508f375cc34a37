/** The records of `sbx/api` that look into one sandbox: its log, processes, ports and changes. */

import type { BuildLogEntry, Change, Diff, PortList, SandboxLogEntry, ShownProcess } from './api';

/** One entry of the log of a sandbox or a build. */
export type ILogEntry = BuildLogEntry & Partial<Pick<SandboxLogEntry, 'fields'>>;

export type LogLevel = ILogEntry['level'];

/** A path that differs from the template or a snapshot. */
export type IChange = Change;

export type IDiff = Diff;

/** One process of a sandbox, as the kernel shows it. */
export type IProcess = ShownProcess;

/** The ports of a sandbox, and how their pages are kept apart from Jupyter. */
export type IPorts = PortList;

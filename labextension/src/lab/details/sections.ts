import type { CommandRegistry } from '@lumino/commands';

import type { SandboxApi } from '../../components/sandboxApi';
import { trans } from '../../components/translation';
import type { Sandboxes } from '../sandboxes';

/** The parts of the details of a sandbox. */
export const SECTIONS = ['logs', 'processes', 'ports', 'changes'] as const;
export type Section = (typeof SECTIONS)[number];

/** Copies a file of a sandbox to the notebook files. */
export type TakeHome = (sandboxId: string, path: string) => Promise<void>;

/** The properties of every section. */
export interface ISectionProps {
  readonly api: SandboxApi;
  readonly sandboxes: Sandboxes;
  readonly commands: CommandRegistry;
  readonly sandboxId: string;
  readonly takeHome: TakeHome;
  /** The directory to whose changes the list is limited; empty for all. */
  readonly folder: string;
  readonly setFolder: (folder: string) => void;
  /** Whether it can be seen; nothing is asked otherwise. */
  readonly isActive: boolean;
  /** Whether the sandbox has ended or rests: nothing more can be read of it, or done with it. */
  readonly hasEnded: boolean;
}

/** The section of a command's argument; the first if it names none. */
export function sectionOf(value: unknown): Section {
  return SECTIONS.find(section => section === value) ?? 'logs';
}

export function sectionLabel(section: Section): string {
  const labels: Record<Section, () => string> = {
    logs: () => trans.__('Logs'),
    processes: () => trans.__('Processes'),
    ports: () => trans.__('Ports'),
    changes: () => trans.__('Changes')
  };
  return labels[section]();
}

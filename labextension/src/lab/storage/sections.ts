import type { CommandRegistry } from '@lumino/commands';

import { trans } from '../../components/translation';
import type { Sandboxes } from '../sandboxes';

/** The kinds of things that outlive sandboxes. */
export const STORES = ['snapshots', 'templates', 'volumes', 'secrets'] as const;
export type Store = (typeof STORES)[number];

/** The properties of every section. */
export interface IStoreProps {
  readonly sandboxes: Sandboxes;
  readonly commands: CommandRegistry;
  /** Whether it can be seen; nothing is asked otherwise. */
  readonly isActive: boolean;
}

/** The section of a command's argument; the first if it names none. */
export function storeOf(value: unknown): Store {
  return STORES.find(store => store === value) ?? 'snapshots';
}

export function storeLabel(store: Store): string {
  const labels: Record<Store, () => string> = {
    snapshots: () => trans.__('Snapshots'),
    templates: () => trans.__('Templates'),
    volumes: () => trans.__('Volumes'),
    secrets: () => trans.__('Secrets')
  };
  return labels[store]();
}

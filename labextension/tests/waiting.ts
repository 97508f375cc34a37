import { vi } from 'vitest';

/** Waits until `check` throws no more: for long, since this is no measure of how fast something is. */
export function waitFor<T>(check: () => T | Promise<T>): Promise<T> {
  return vi.waitFor(check, { timeout: 30_000 });
}

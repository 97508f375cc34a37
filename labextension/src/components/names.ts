import { trans } from './translation';

/** The names of sandboxes, or how many there are. */
export function namesText(names: readonly string[]): string {
  const [most, rest] = [names.slice(0, 5), names.length - 5];
  return rest > 0 ? trans.__('%1 and %2 more', most.join(', '), rest) : most.join(', ');
}

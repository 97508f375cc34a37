import type { ISandbox } from '../protocol/sandboxes';
import { isReserve } from '../protocol/sandboxes';

/**
 * The sandboxes to show, newest first, without those that are only kept ready.
 *
 * Unchanged sandboxes stay the same objects, so that their views are not drawn again.
 */
export function arrange(listed: readonly ISandbox[], before: readonly ISandbox[]): readonly ISandbox[] {
  const known = new Map(before.map(sandbox => [sandbox.sandboxID, sandbox]));
  const same = (sandbox: ISandbox): ISandbox => {
    const last = known.get(sandbox.sandboxID);
    return last !== undefined && isSame(last, sandbox) ? last : sandbox;
  };
  const shown = listed.filter(sandbox => !isReserve(sandbox)).map(same);
  return shown.sort((one, other) => Date.parse(other.startedAt) - Date.parse(one.startedAt));
}

/** Whether two records of a sandbox say the same: they are plain JSON. */
const isSame = (one: ISandbox, other: ISandbox): boolean => JSON.stringify(one) === JSON.stringify(other);

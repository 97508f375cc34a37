import type { INewSandbox } from '../../protocol/sandboxes';

/** The remembered options of the last sandbox that was made with options; no variables, which may be secret. */
export type LastChoices = Pick<INewSandbox, 'template' | 'timeout' | 'internet' | 'onTimeout'>;

const KEY = 'sbx-jupyter:new-sandbox';

/** The last choices on this browser; none where it keeps nothing. */
export function lastChoices(storage: Pick<Storage, 'getItem'> = localStorage): LastChoices {
  try {
    const { template, timeout, internet, onTimeout } = JSON.parse(storage.getItem(KEY) ?? '{}') as Record<string, unknown>;
    return {
      ...(typeof template === 'string' ? { template } : {}),
      ...(typeof timeout === 'number' && timeout > 0 ? { timeout } : {}),
      ...(typeof internet === 'boolean' ? { internet } : {}),
      ...(onTimeout === 'pause' || onTimeout === 'kill' ? { onTimeout } : {})
    };
  } catch {
    return {};
  }
}

export function rememberChoices(request: INewSandbox, storage: Pick<Storage, 'setItem'> = localStorage): void {
  const { template, timeout, internet, onTimeout } = request;
  try {
    storage.setItem(KEY, JSON.stringify({ template, timeout, internet, onTimeout }));
  } catch {
    // A browser that keeps nothing has no last choices.
  }
}

import type { Dispose, ISandboxTransport } from '../transport';

/** Milliseconds before a watch that ended is begun again. */
const PAUSE = 5000;

/**
 * Calls `listener` for changes in a directory until it is disposed of, also after a pause of the sandbox, a
 * lost connection or the sleep of the computer, and once whenever something may have been missed.
 *
 * A watch can wake a sandbox that is paused, so it is begun again only when the sandbox runs.
 */
export function watchLastingly(transport: ISandboxTransport, path: string, listener: () => void): Dispose {
  let stop: Dispose = () => undefined;
  let timer = 0;
  let isOver = false;
  const wait = () => {
    timer = window.setTimeout(() => void goOn(), PAUSE);
  };
  const begin = () => {
    stop = transport.watch(path, listener, wait);
  };
  const goOn = async () => {
    // A state that cannot be had now is asked for again.
    const state = document.visibilityState === 'hidden' ? null : await transport.state().catch(() => null);
    if (isOver || state === 'ended') {
      return;
    }
    if (state === 'running') {
      begin();
      listener();
    } else {
      wait();
    }
  };
  begin();
  return () => {
    isOver = true;
    window.clearTimeout(timer);
    stop();
  };
}

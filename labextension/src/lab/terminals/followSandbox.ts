import type { Sandboxes } from '../sandboxes';
import type { TerminalConnection } from './terminalConnection';

/** Tells a terminal until its end whether its sandbox is paused. */
export function followSandbox(sandboxes: Sandboxes, connection: TerminalConnection): void {
  const tell = () => {
    const state = sandboxes.stateOf(connection.sandboxId);
    if (state !== null) {
      connection.setSandboxState(state);
    }
  };
  // The list of sandboxes may be closed, and changes are told only while somebody watches.
  const stopWatching = sandboxes.watch();
  sandboxes.changed.connect(tell);
  connection.disposed.connect(() => {
    sandboxes.changed.disconnect(tell);
    stopWatching();
  });
  tell();
}

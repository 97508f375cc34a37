import type { ServerConnection } from '@jupyterlab/services';
import { Signal } from '@lumino/signaling';
import { describe, expect, it } from 'vitest';

import type { SandboxState } from '../../../src/components/transport';
import { followSandbox } from '../../../src/lab/terminals/followSandbox';
import { TerminalConnection } from '../../../src/lab/terminals/terminalConnection';
import { SandboxError } from '../../../src/protocol/errors';
import { FakeTransport } from '../../fakeTransport';

function followed() {
  const model = { state: 'running' as SandboxState | null, watchers: 0 };
  const changed = new Signal<object, void>(model);
  const sandboxes = {
    changed,
    stateOf: () => model.state,
    watch: () => {
      model.watchers += 1;
      return () => { model.watchers -= 1; };
    }
  };
  const transport = new FakeTransport();
  const connection = new TerminalConnection(transport, {} as ServerConnection.ISettings, { name: 'one', sandboxId: 'sbx1' });
  followSandbox(sandboxes as never, connection);
  connection.send({ type: 'set_size', content: [24, 80, 0, 0] });
  transport.terminal().listener.onStart?.({ pid: 7, sequence: 0 });
  const tell = (state: SandboxState | null) => {
    model.state = state;
    changed.emit();
  };
  return { transport, connection, model, tell };
}

describe('a terminal whose sandbox is paused', () => {
  it('goes on after the sandbox was resumed, although its attempt was refused', () => {
    const { transport, connection, tell } = followed();
    transport.terminal().listener.onClose(new SandboxError('not_found', 'The sandbox was not found'));
    tell('paused');
    expect(connection.message).toBe('The sandbox is paused.');
    expect(connection.remedy).toBe('resume');
    expect(connection.hasEnded).toBe(false);

    tell('running');
    tell('running');
    expect(transport.terminals).toHaveLength(2);
    transport.terminal().listener.onStart?.({ pid: 7, sequence: 0 });
    expect(connection.message).toBeNull();
  });

  it('keeps what it says while the state is not known', () => {
    const { connection, tell } = followed();
    tell('paused');
    tell(null);
    expect(connection.remedy).toBe('resume');
  });

  it('is watched until its end, since changes are told only while somebody watches', () => {
    const { connection, model } = followed();
    expect(model.watchers).toBe(1);
    connection.dispose();
    expect(model.watchers).toBe(0);
  });
});

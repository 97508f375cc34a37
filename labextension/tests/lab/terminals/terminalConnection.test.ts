import type { ServerConnection, Terminal } from '@jupyterlab/services';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import { TerminalConnection } from '../../../src/lab/terminals/terminalConnection';
import { SandboxError } from '../../../src/protocol/errors';
import { FakeTransport } from '../../fakeTransport';

const bytes = (text: string) => new TextEncoder().encode(text);

function connect(since?: number, pid?: number) {
  const transport = new FakeTransport();
  const options = { name: 'one', sandboxId: 'sbx1', pid, since };
  const connection = new TerminalConnection(transport, {} as ServerConnection.ISettings, options);
  let shown = '';
  connection.messageReceived.connect((_: unknown, message: Terminal.IMessage) => {
    shown += message.type === 'stdout' ? String(message.content?.[0]) : '';
  });
  const size = (rows: number, cols: number) => {
    connection.send({ type: 'set_size', content: [rows, cols, 0, 0] });
  };
  const latest = () => transport.terminal();
  return { transport, connection, size, latest, shown: () => shown };
}

describe('a terminal of JupyterLab on a sandbox', () => {
  beforeEach(() => {
    vi.useFakeTimers();
  });

  afterEach(() => {
    vi.useRealTimers();
  });

  it('opens with the first size of the screen, so that the shell starts with the right one', () => {
    const { transport, size, latest } = connect();
    expect(transport.terminals).toHaveLength(0);

    size(40, 120);

    expect(latest().request).toMatchObject({ cols: 120, rows: 40 });
    expect(latest().request.pid).toBeUndefined();
  });

  it('puts a character together that arrives in two pieces', () => {
    const { size, latest, shown } = connect();
    size(24, 80);
    latest().listener.onStart?.({ pid: 7, sequence: 0 });
    const euro = bytes('€');

    latest().listener.onData(euro.slice(0, 1), 0);
    latest().listener.onData(euro.slice(1), 1);

    expect(shown()).toBe('€');
  });

  it('puts a character together that a lost connection cut in two', () => {
    const { size, latest, shown } = connect();
    size(24, 80);
    latest().listener.onStart?.({ pid: 7, sequence: 0 });
    const euro = bytes('€');

    latest().listener.onData(euro.slice(0, 1), 0);
    latest().listener.onClose(null);
    vi.advanceTimersByTime(300);
    latest().listener.onStart?.({ pid: 7, sequence: 1 });
    latest().listener.onData(euro.slice(1), 1);

    expect(shown()).toBe('€');
  });

  it('comes back to the same process where it was after a lost connection', () => {
    const { connection, transport, size, latest } = connect();
    size(24, 80);
    latest().listener.onStart?.({ pid: 7, sequence: 0 });
    latest().listener.onData(bytes('hello'), 0);

    latest().listener.onClose(null);
    expect(connection.connectionStatus).toBe('disconnected');
    expect(connection.message).toContain('Trying again');
    vi.advanceTimersByTime(300);

    expect(transport.terminals).toHaveLength(2);
    expect(latest().request).toMatchObject({ pid: 7, since: 5 });
    latest().listener.onStart?.({ pid: 7, sequence: 5 });
    expect(connection.message).toBeNull();
    expect(connection.restoreArgs).toEqual({ sandbox: 'sbx1', pid: 7, since: 5 });
  });

  it('stops trying when the sandbox is gone and says what the server said', () => {
    const { connection, transport, size, latest } = connect();
    size(24, 80);
    latest().listener.onClose(new SandboxError('not_found', 'Sandbox "sbx1" doesn\'t exist'));
    vi.advanceTimersByTime(60_000);

    expect(transport.terminals).toHaveLength(1);
    expect(connection.message).toBe('Sandbox "sbx1" doesn\'t exist');
    expect(connection.hasEnded).toBe(true);
  });

  it('shows all that is kept after a reload, and types no answers to old queries', () => {
    const { size, latest, connection } = connect(100, 7);
    size(24, 80);
    expect(latest().request).toMatchObject({ pid: 7, since: 0 });
    latest().listener.onStart?.({ pid: 7, sequence: 0 });
    latest().listener.onData(bytes('x'.repeat(100)), 0);

    connection.send({ type: 'stdin', content: ['\x1b[?1;2c'] });
    connection.send({ type: 'stdin', content: ['ls\r'] });
    expect(latest().typed).toBe('ls\r');

    vi.advanceTimersByTime(1000);
    connection.send({ type: 'stdin', content: ['\x1b[?1;2c'] });
    expect(latest().typed).toBe('ls\r\x1b[?1;2c');
  });

  it('tells how the shell ended and does not reconnect', () => {
    const { connection, transport, size, latest } = connect();
    size(24, 80);
    latest().listener.onExit({ code: 3 });
    vi.advanceTimersByTime(60_000);

    expect(connection.message).toBe('The shell ended with code 3.');
    expect(transport.terminals).toHaveLength(1);
  });
});

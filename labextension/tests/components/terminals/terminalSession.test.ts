import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import type { ITerminalSessionOptions } from '../../../src/components/terminals/terminalSession';
import { TerminalSession } from '../../../src/components/terminals/terminalSession';
import { SandboxError } from '../../../src/protocol/errors';
import { FakeTransport } from '../../fakeTransport';

const bytes = (text: string) => new TextEncoder().encode(text);
const SIZE = { cols: 80, rows: 24 };
const DEVICE_ATTRIBUTES = '\x1b[?1;2c';

function start(options?: ITerminalSessionOptions) {
  const transport = new FakeTransport();
  const states: string[] = [];
  let shown = '';
  let gaps = 0;
  const session: TerminalSession = new TerminalSession(
    transport,
    {
      onData: data => (shown += new TextDecoder().decode(data)),
      onGap: () => (gaps += 1),
      onChange: () => states.push(session.state)
    },
    options
  );
  return { transport, session, states, shown: () => shown, gaps: () => gaps };
}

function connected(options?: ITerminalSessionOptions) {
  const started = start(options);
  started.session.resize(SIZE);
  started.transport.terminal().listener.onStart?.({ pid: options?.pid ?? 7, sequence: 0 });
  return started;
}

describe('a terminal session', () => {
  beforeEach(() => {
    vi.useFakeTimers();
  });

  afterEach(() => {
    vi.useRealTimers();
  });

  it('opens with the first usable size of the screen', () => {
    const { session, transport } = start();
    session.resize({ cols: 0, rows: 24 });
    expect(transport.terminals).toHaveLength(0);

    session.resize({ cols: 120, rows: 40 });
    session.resize({ cols: 100, rows: 30 });

    expect(transport.terminal().request).toEqual({ cols: 120, rows: 40 });
    expect(transport.terminal().sizes).toEqual([[100, 30]]);
  });

  it('attaches to the process it was given', () => {
    const { transport } = connected({ pid: 9 });
    expect(transport.terminal().request).toMatchObject({ pid: 9, since: 0 });
  });

  it('attaches again to the same process from the first byte that was not shown', () => {
    const { session, transport, states, shown } = connected();
    transport.terminal().listener.onData(bytes('hello'), 0);
    transport.terminal().listener.onClose(null);
    expect(session.message).toContain('Trying again');
    session.resize({ cols: 90, rows: 20 });

    vi.advanceTimersByTime(250);
    expect(transport.terminal().request).toEqual({ cols: 90, rows: 20, pid: 7, since: 5 });
    transport.terminal().listener.onStart?.({ pid: 7, sequence: 5 });
    transport.terminal().listener.onData(bytes(' world'), 5);

    expect(shown()).toBe('hello world');
    expect(session.message).toBeNull();
    expect(states).toEqual(['connecting', 'connected', 'waiting', 'connecting', 'connected']);
  });

  it('keeps trying, at longer and longer intervals, while the server does not answer', () => {
    const { session, transport } = connected();
    const waits: number[] = [];
    for (let attempt = 0; attempt < 8; attempt += 1) {
      const before = Date.now();
      transport.terminal().listener.onClose(new SandboxError('unavailable', 'The engine is starting.'));
      vi.advanceTimersToNextTimer();
      waits.push(Date.now() - before);
    }

    expect(waits).toEqual([250, 500, 1000, 2000, 4000, 8000, 8000, 8000]);
    expect(session.state).toBe('connecting');
  });

  it('starts with the shortest interval again after a connection', () => {
    const { transport } = connected();
    transport.terminal().listener.onClose(null);
    vi.advanceTimersByTime(250);
    transport.terminal().listener.onClose(null);
    vi.advanceTimersByTime(500);
    transport.terminal().listener.onStart?.({ pid: 7, sequence: 0 });
    transport.terminal().listener.onClose(null);
    vi.advanceTimersByTime(250);

    expect(transport.terminals).toHaveLength(4);
  });

  it.each(['not_found', 'permission_denied', 'invalid_argument', 'unauthenticated', 'failed_precondition'])(
    'ends with the words of the server when it says %s',
    code => {
      const { session, transport } = connected();
      transport.terminal().listener.onClose(new SandboxError(code, 'That cannot be.'));
      vi.advanceTimersByTime(60_000);

      expect(session.state).toBe('ended');
      expect(session.message).toBe('That cannot be.');
      expect(transport.terminals).toHaveLength(1);
    }
  );

  it('connects again after a final error when the user asks for it', () => {
    const { session, transport } = connected();
    transport.terminal().listener.onClose(new SandboxError('failed_precondition', 'It is paused.'));
    session.reconnect();

    expect(transport.terminal().request).toMatchObject({ pid: 7 });
    expect(session.state).toBe('connecting');
  });

  it.each([
    ['not_found', 'none'],
    ['unauthenticated', 'reconnect'],
    ['unavailable', 'reconnect']
  ])('says what can be done about %s', (code, remedy) => {
    const { session, transport } = start();
    session.resize(SIZE);
    transport.terminal().listener.onClose(new SandboxError(code, 'no'));
    expect(session.remedy).toBe(remedy);
  });

  it('says how the shell ended and never connects again', () => {
    const { session, transport } = connected();
    transport.terminal().listener.onExit({ code: 3 });
    session.reconnect();
    session.resize(SIZE);
    vi.advanceTimersByTime(60_000);

    expect(session.message).toBe('The shell ended with code 3.');
    expect(session.remedy).toBe('restart');
    expect(transport.terminals).toHaveLength(1);
  });

  it('reports output that the server no longer has as a gap', () => {
    const { transport, session, gaps } = connected();
    transport.terminal().listener.onData(bytes('abc'), 0);
    expect(gaps()).toBe(0);

    transport.terminal().listener.onStart?.({ pid: 7, sequence: 100 });
    transport.terminal().listener.onData(bytes('d'), 100);

    expect(gaps()).toBe(1);
    expect(session.sequence).toBe(101);
  });

  it('does not answer queries again that an earlier page has answered', () => {
    const { session, transport } = connected({ pid: 7, shownBefore: 10 });
    transport.terminal().listener.onData(bytes('0123456789'), 0);
    session.sendText(DEVICE_ATTRIBUTES);
    session.sendText('ls\r');
    expect(transport.terminal().typed).toBe('ls\r');

    vi.advanceTimersByTime(500);
    session.sendText(DEVICE_ATTRIBUTES);
    expect(transport.terminal().typed).toBe(`ls\r${DEVICE_ATTRIBUTES}`);
  });

  it('answers no queries in the first second of a replay of unknown length', () => {
    const { session, transport } = connected({ pid: 7 });
    session.sendText(DEVICE_ATTRIBUTES);
    expect(transport.terminal().typed).toBe('');

    vi.advanceTimersByTime(1000);
    session.sendText(DEVICE_ATTRIBUTES);
    expect(transport.terminal().typed).toBe(DEVICE_ATTRIBUTES);
  });

  it('answers the queries of a shell that it started', () => {
    const { session, transport } = connected();
    session.sendText(DEVICE_ATTRIBUTES);
    expect(transport.terminal().typed).toBe(DEVICE_ATTRIBUTES);
  });

  it('only shows the terminal in a view that is read only', () => {
    const { transport, session } = connected({ pid: 7, shownBefore: 0, isReadOnly: true });
    session.sendText('rm -rf /\r');
    session.resize({ cols: 20, rows: 5 });
    expect(transport.terminal().request).toEqual({ pid: 7, since: 0, readOnly: 'true' });
    expect([transport.terminal().typed, transport.terminal().sizes]).toEqual(['', []]);
  });

  it('starts a new shell in the directory that it is given', () => {
    expect(connected({ cwd: '/tmp' }).transport.terminal().request).toEqual({ ...SIZE, cwd: '/tmp' });
  });

  it('leaves the process alone when it is disposed', () => {
    const { session, transport, states } = connected();
    const terminal = transport.terminal();
    session.dispose();
    terminal.listener.onClose(null);
    session.reconnect();
    session.resize(SIZE);
    vi.advanceTimersByTime(60_000);

    expect(terminal.disposed).toBe(true);
    expect(transport.terminals).toHaveLength(1);
    expect(states).toEqual(['connecting', 'connected']);
  });

  it('makes no attempt while the sandbox is paused, which an attempt may wake, and one afterwards', () => {
    const { session, transport } = connected();
    transport.terminal().listener.onClose(null);
    session.setSandboxState('paused');
    vi.advanceTimersByTime(60_000);
    expect(transport.terminals).toHaveLength(1);
    expect(session.remedy).toBe('resume');

    session.setSandboxState('running');
    expect(transport.terminals).toHaveLength(2);
    expect(transport.terminal().request).toMatchObject({ pid: 7 });
  });

  it('loses its connection in a pause without an attempt', () => {
    const { session, transport } = connected();
    session.setSandboxState('paused');
    transport.terminal().listener.onClose(null);
    vi.advanceTimersByTime(60_000);
    expect(transport.terminals).toHaveLength(1);
    expect(session.message).toBe('The sandbox is paused.');
  });

  it('says after one attempt that a pause without the memory ended the shell', () => {
    const { session, transport } = connected();
    session.setSandboxState('paused');
    transport.terminal().listener.onClose(null);
    session.setSandboxState('running');
    transport.terminal().listener.onClose(new SandboxError('not_found', 'no terminal 7 runs in this sandbox'));
    vi.advanceTimersByTime(60_000);

    expect(transport.terminals).toHaveLength(2);
    expect(session.message).toBe('The shell ended when the sandbox was paused.');
    expect(session.remedy).toBe('restart');
  });

  it('says what the server says when the sandbox has ended in its pause', () => {
    const { session, transport } = connected();
    session.setSandboxState('paused');
    session.setSandboxState('ended');
    transport.terminal().listener.onClose(new SandboxError('not_found', 'The sandbox was not found'));
    expect(session.message).toBe('The sandbox was not found');
    expect(session.remedy).toBe('none');
  });
});

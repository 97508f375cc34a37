import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import { openTerminalSocket } from '../../../src/components/terminals/terminalSocket';
import type { SandboxError } from '../../../src/protocol/errors';
import { FakeSocket } from '../../fakeServer';

function open() {
  const socket = new FakeSocket();
  const heard: unknown[] = [];
  const channel = openTerminalSocket(socket as unknown as WebSocket, {
    onShown: ({ name, viewers }) => heard.push(['shown', name, viewers.length]),
    onStart: started => heard.push(['start', started.pid, started.sequence]),
    onData: (data, sequence) => heard.push([new TextDecoder().decode(data), sequence]),
    onExit: exit => heard.push(['exit', exit.code]),
    onClose: (reason: SandboxError | null) => heard.push(['close', reason?.code ?? null])
  });
  return { socket, heard, channel };
}

const buffer = (text: string) => new TextEncoder().encode(text).buffer;

describe('the terminal socket', () => {
  beforeEach(() => {
    vi.useFakeTimers();
  });

  afterEach(() => {
    vi.useRealTimers();
  });

  it('keeps what is typed before it is open, in order', () => {
    const { socket, channel } = open();
    channel.send(new TextEncoder().encode('a'));
    channel.resize(80, 24);
    expect(socket.sent).toHaveLength(0);

    socket.open();

    expect(socket.sent).toEqual([new TextEncoder().encode('a'), '{"resize":{"cols":80,"rows":24}}']);
  });

  it('numbers output from the start frame on, also after a gap', () => {
    const { socket, heard } = open();
    socket.open();
    socket.receive('{"pid":5,"sequence":10}');
    socket.receive(buffer('abc'));
    socket.receive(buffer('d'));
    socket.receive('{"pid":5,"sequence":100}');
    socket.receive(buffer('e'));

    expect(heard).toEqual([['start', 5, 10], ['abc', 10], ['d', 13], ['start', 5, 100], ['e', 100]]);
  });

  it('tells the name and the viewers apart from output', () => {
    const { socket, heard } = open();
    socket.open();
    socket.receive('{"pid":5,"sequence":10}');
    socket.receive('{"name":"build","viewers":[{"user":"ann","readOnly":true}]}');
    socket.receive(buffer('a'));

    expect(heard).toEqual([['start', 5, 10], ['shown', 'build', 1], ['a', 10]]);
  });

  it('acknowledges output, so that a flood waits at the server', () => {
    const { socket } = open();
    socket.open();
    socket.receive('{"pid":5,"sequence":1000}');
    socket.receive(buffer('abc'));
    socket.receive(buffer('de'));
    vi.advanceTimersByTime(100);

    expect(socket.sent).toEqual(['{"ack":5}']);
  });

  it('reports an error in words once, not again when the socket closes', () => {
    const { socket, heard } = open();
    socket.receive('{"error":{"code":"not_found","message":"gone"}}');
    socket.drop();

    expect(heard).toEqual([['close', 'not_found']]);
  });

  it('reports a lost connection without a reason', () => {
    const { socket, heard } = open();
    socket.open();
    socket.drop();

    expect(heard).toEqual([['close', null]]);
  });

  it('ends quietly when it is disposed', () => {
    const { socket, heard, channel } = open();
    socket.open();
    channel.dispose();
    socket.receive(buffer('late'));
    socket.drop();

    expect(heard).toEqual([]);
  });
});

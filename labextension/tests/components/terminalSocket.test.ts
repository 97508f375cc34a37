import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import { openTerminalSocket } from '../../src/components/terminalSocket';
import type { SandboxError } from '../../src/protocol/errors';

class FakeSocket extends EventTarget {
  send(data: unknown): void {
    this.sent.push(data);
  }

  close(): void {
    this.readyState = WebSocket.CLOSED;
  }

  open(): void {
    this.readyState = WebSocket.OPEN;
    this.dispatchEvent(new Event('open'));
  }

  say(data: unknown): void {
    this.dispatchEvent(Object.assign(new Event('message'), { data }));
  }

  drop(reason = ''): void {
    this.dispatchEvent(Object.assign(new Event('close'), { reason }));
  }

  binaryType = '';
  readyState: number = WebSocket.CONNECTING;
  readonly sent: unknown[] = [];
}

function open() {
  const socket = new FakeSocket();
  const heard: unknown[] = [];
  const channel = openTerminalSocket(socket as unknown as WebSocket, {
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
    socket.say('{"pid":5,"sequence":10}');
    socket.say(buffer('abc'));
    socket.say(buffer('d'));
    socket.say('{"pid":5,"sequence":100}');
    socket.say(buffer('e'));

    expect(heard).toEqual([['start', 5, 10], ['abc', 10], ['d', 13], ['start', 5, 100], ['e', 100]]);
  });

  it('acknowledges output, so that a flood waits at the server', () => {
    const { socket } = open();
    socket.open();
    socket.say('{"pid":5,"sequence":1000}');
    socket.say(buffer('abc'));
    socket.say(buffer('de'));
    vi.advanceTimersByTime(100);

    expect(socket.sent).toEqual(['{"ack":5}']);
  });

  it('reports an error in words once, not again when the socket closes', () => {
    const { socket, heard } = open();
    socket.say('{"error":{"code":"not_found","message":"gone"}}');
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
    socket.say(buffer('late'));
    socket.drop();

    expect(heard).toEqual([]);
  });
});

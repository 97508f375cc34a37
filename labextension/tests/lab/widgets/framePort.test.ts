import { describe, expect, it, vi } from 'vitest';

import { Allowance } from '../../../src/lab/widgets/allowance';
import { FramePort, parseFromFrame } from '../../../src/lab/widgets/framePort';

describe('parseFromFrame', () => {
  it('reads the four messages and nothing else of them', () => {
    expect(parseFromFrame({ type: 'get', id: 'a1', kernel: 'x' })?.message).toEqual({ type: 'get', id: 'a1' });
    expect(parseFromFrame({ type: 'height', height: 12 })?.message).toEqual({ type: 'height', height: 12 });
    expect(parseFromFrame({ type: 'taken', count: 3 })?.message).toEqual({ type: 'taken', count: 3 });
    const sent = { type: 'send', id: 'a1', message: { method: 'update', at: new Date(0) }, buffers: ['x'], number: 1 };
    expect(parseFromFrame(sent)?.message).toEqual({
      type: 'send',
      id: 'a1',
      message: { method: 'update', at: '1970-01-01T00:00:00.000Z' },
      buffers: [],
      number: 1
    });
  });

  const circle: Record<string, unknown> = {};
  circle['circle'] = circle;
  it.each([
    null,
    'text',
    [1],
    {},
    { type: 'execute', code: '1' },
    { type: 'get', id: '../x' },
    { type: 'get', id: 'sbx-jupyter:widgets' },
    { type: 'height', height: '5' },
    { type: 'height', height: Infinity },
    { type: 'send', id: 'a', number: 1 },
    { type: 'send', id: 'a', message: [], number: 1 },
    { type: 'send', id: 'a', message: circle, number: 1 },
    { type: 'send', id: 'a', message: { big: 1n }, number: 1 },
    { type: 'send', id: 'a', message: {} }
  ])('refuses %o', value => {
    expect(parseFromFrame(value)).toBeUndefined();
  });

  it('counts text and bytes', () => {
    const message = { type: 'send', id: 'a', message: { x: 'yy' }, buffers: [new Uint8Array(5)], number: 1 };
    expect(parseFromFrame(message)?.size).toBe('{"x":"yy"}'.length + 5);
  });
});

describe('FramePort', () => {
  function open() {
    const port = { postMessage: vi.fn(), close: vi.fn(), onmessage: null as ((event: MessageEvent) => void) | null };
    const requests = { get: vi.fn(), send: vi.fn(), height: vi.fn(), stopped: vi.fn() };
    const framePort = new FramePort(port, requests);
    const receive = (data: unknown) => port.onmessage?.({ data } as MessageEvent);
    return { port, requests, framePort, receive };
  }

  it('passes requests on', () => {
    const { requests, receive } = open();
    receive({ type: 'get', id: 'a' });
    receive({ type: 'nothing' });
    expect(requests.get).toHaveBeenCalledExactlyOnceWith('a');
  });

  it('stops a frame that sends too often', () => {
    const { port, requests, receive } = open();
    for (let count = 0; count < 3000; count++) {
      receive({ type: 'nothing' });
    }
    expect(requests.stopped).toHaveBeenCalledExactlyOnceWith('too much');
    expect(port.close).toHaveBeenCalledOnce();
  });

  it('stops a frame that sends too much', () => {
    const { requests, receive } = open();
    for (let count = 0; count < 10; count++) {
      receive({ type: 'send', id: 'a', message: {}, buffers: [new ArrayBuffer(10_000_000)], number: count });
    }
    expect(requests.stopped).toHaveBeenCalledExactlyOnceWith('too much');
    expect(requests.send.mock.calls.length).toBeLessThan(8);
  });

  it('stops a frame that takes nothing', () => {
    const { port, requests, framePort } = open();
    for (let count = 0; count < 2500; count++) {
      framePort.post({ type: 'idle', cause: count });
    }
    expect(requests.stopped).toHaveBeenCalledExactlyOnceWith('hanging');
    expect(port.postMessage).toHaveBeenCalledTimes(2000);
  });

  it('goes on while the frame takes what it is sent', () => {
    const { requests, framePort, receive } = open();
    for (let count = 1; count <= 5000; count++) {
      framePort.post({ type: 'idle', cause: count });
      receive({ type: 'taken', count });
    }
    expect(requests.stopped).not.toHaveBeenCalled();
  });
});

describe('Allowance', () => {
  it('fills up with time, to its most', () => {
    let now = 0;
    const allowance = new Allowance(10, 20, () => now);
    expect(allowance.take(20)).toBe(true);
    expect(allowance.take(1)).toBe(false);
    now = 1000;
    expect(allowance.take(9)).toBe(true);
    now = 100_000;
    expect(allowance.take(21)).toBe(false);
  });
});

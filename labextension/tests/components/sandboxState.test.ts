import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import { StateBand, stateFrom } from '../../src/components/sandboxState';
import { SandboxError } from '../../src/protocol/errors';
import { FakeTransport } from '../fakeTransport';

describe('the state of a sandbox above its view', () => {
  beforeEach(() => {
    vi.useFakeTimers();
  });

  afterEach(() => {
    vi.useRealTimers();
  });

  it('is told when it changes, and asked for no more after the end', async () => {
    const transport = new FakeTransport();
    const asked = vi.spyOn(transport, 'state');
    const states: string[] = [];
    const band = new StateBand(document.createElement('div'), transport, state => states.push(state));
    await vi.advanceTimersByTimeAsync(0);
    expect(band.node.hidden).toBe(true);

    transport.currentState = 'paused';
    await vi.advanceTimersByTimeAsync(10_000);
    expect(band.node.textContent).toContain('paused');
    transport.currentState = 'ended';
    await vi.advanceTimersByTimeAsync(10_000);
    expect(band.node.textContent).toContain('ended');

    expect(states).toEqual(['running', 'paused', 'ended']);
    await vi.advanceTimersByTimeAsync(60_000);
    expect(asked).toHaveBeenCalledTimes(3);
    band.dispose();
  });

  it('has ended when the sandbox is not found, and is not known when nothing answers', async () => {
    expect(await stateFrom(() => Promise.reject(new SandboxError('not_found', 'no such sandbox')))).toBe('ended');
    await expect(stateFrom(() => Promise.reject(new Error('no answer')))).rejects.toThrow('no answer');
  });
});

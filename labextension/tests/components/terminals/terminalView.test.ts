import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import { TerminalView } from '../../../src/components/terminals/terminalView';
import { SandboxError } from '../../../src/protocol/errors';
import { installCanvas } from '../../fakeCanvas';
import { FakeTransport } from '../../fakeTransport';
import { button } from '../../userEvents';
import { waitFor } from '../../waiting';

const bytes = (text: string) => new TextEncoder().encode(text);

function open(pid: number | null = 7, onPid?: (pid: number) => void) {
  const node = document.createElement('div');
  document.body.replaceChildren(node);
  const transport = new FakeTransport();
  const view = new TerminalView(node, transport, pid, onPid);
  view.open();
  const message = () => node.querySelector<HTMLElement>('[role=status]');
  const isShown = () => node.querySelector<HTMLElement>('.sbx-Terminal-message')?.hidden === false;
  const screen = () => node.querySelector('.xterm-rows')?.textContent ?? '';
  return { node, view, transport, message, isShown, screen };
}

describe('the terminal of a widget', () => {
  beforeEach(() => {
    installCanvas();
    vi.spyOn(window, 'matchMedia').mockReturnValue({
      addListener: () => undefined,
      removeListener: () => undefined,
      addEventListener: () => undefined,
      removeEventListener: () => undefined
    } as unknown as MediaQueryList);
  });

  afterEach(() => {
    vi.useRealTimers();
    vi.restoreAllMocks();
  });

  it('shows the terminal of the process it was given', async () => {
    const { transport, screen, isShown } = open();
    const terminal = transport.terminal();
    expect(terminal.request).toMatchObject({ pid: 7, since: 0 });

    terminal.listener.onStart?.({ pid: 7, sequence: 0 });
    terminal.listener.onData(bytes('hello'), 0);

    await waitFor(() => {
      expect(screen()).toContain('hello');
    });
    expect(isShown()).toBe(false);
  });

  it('is not opened once it was disposed', () => {
    const transport = new FakeTransport();
    const view = new TerminalView(document.createElement('div'), transport, 7);
    view.dispose();

    view.open();

    expect(transport.terminals).toEqual([]);
  });

  it('sends what is typed', () => {
    const { node, view, transport } = open();
    transport.terminal().listener.onStart?.({ pid: 7, sequence: 0 });
    view.focus();
    const field = node.querySelector('textarea') as HTMLTextAreaElement;
    expect(document.activeElement).toBe(field);

    field.dispatchEvent(
      Object.assign(new KeyboardEvent('keydown', { key: 'Enter', bubbles: true, cancelable: true }), { keyCode: 13 })
    );

    expect(transport.terminal().typed).toBe('\r');
  });

  it('says that the connection is lost, and nothing once it is back', () => {
    vi.useFakeTimers();
    const { transport, message, isShown } = open();
    transport.terminal().listener.onStart?.({ pid: 7, sequence: 0 });
    transport.terminal().listener.onClose(null);
    expect(isShown()).toBe(true);
    expect(message()?.textContent).toBe('The connection to the terminal is lost. Trying again…');

    vi.advanceTimersByTime(250);
    transport.terminal().listener.onStart?.({ pid: 7, sequence: 0 });

    expect(transport.terminals).toHaveLength(2);
    expect(isShown()).toBe(false);
  });

  it('says why there is no terminal and does not try again', () => {
    vi.useFakeTimers();
    const { transport, message } = open();
    transport.terminal().listener.onClose(new SandboxError('unauthenticated', 'The key is refused.'));
    vi.advanceTimersByTime(60_000);

    expect(message()?.textContent).toBe('The key is refused.');
    expect(transport.terminals).toHaveLength(1);
  });

  it('says how the shell ended', () => {
    const { transport, message } = open();
    transport.terminal().listener.onExit({ code: 2 });
    expect(message()?.textContent).toBe('The shell ended with code 2.');
  });

  it('begins another shell once the first one has ended, and tells its process', async () => {
    const told: number[] = [];
    const { node, transport, isShown, screen } = open(7, pid => told.push(pid));
    transport.terminal().listener.onStart?.({ pid: 7, sequence: 0 });
    transport.terminal().listener.onData(bytes('of the first'), 0);
    transport.terminal().listener.onExit({ code: 0 });

    button(node, 'New terminal').click();

    expect(transport.terminals).toHaveLength(2);
    expect(transport.terminal().request.pid).toBeUndefined();
    transport.terminal().listener.onStart?.({ pid: 8, sequence: 0 });
    transport.terminal().listener.onData(bytes('of the second'), 0);
    expect(isShown()).toBe(false);
    expect(new Set(told)).toEqual(new Set([7, 8]));
    await waitFor(() => {
      expect(screen()).toContain('of the second');
    });
    expect(screen()).not.toContain('of the first');
  });

  it('shows the terminal that another view began', () => {
    const { view, transport, isShown } = open();
    const first = transport.terminal();
    first.listener.onExit({ code: 0 });
    view.show(8);
    expect(first.disposed || isShown()).toBe(false);
    expect(transport.terminal().request).toMatchObject({ pid: 8, since: 0 });
    view.show(8);
    expect(transport.terminals).toHaveLength(2);
  });

  it('tries again at once when the user asks', () => {
    vi.useFakeTimers();
    const { node, transport } = open();
    transport.terminal().listener.onClose(new SandboxError('unauthenticated', 'The key is refused.'));
    button(node, 'Try now').click();
    expect(transport.terminals).toHaveLength(2);
  });

  it('begins another shell where the process is gone, as after a reload', () => {
    const { node, transport } = open();
    transport.terminal().listener.onClose(new SandboxError('not_found', 'There is no process 7.'));
    button(node, 'New terminal').click();
    expect(transport.terminal().request.pid).toBeUndefined();
  });

  it('leaves the process alone when it is disposed', () => {
    const { node, view, transport } = open();
    view.dispose();
    expect(transport.terminal().disposed).toBe(true);
    expect(node.childElementCount).toBe(0);
  });
});

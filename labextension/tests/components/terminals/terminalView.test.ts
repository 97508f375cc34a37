import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import { TerminalView } from '../../../src/components/terminals/terminalView';
import { SandboxError } from '../../../src/protocol/errors';
import { installCanvas } from '../../fakeCanvas';
import { FakeTransport } from '../../fakeTransport';

const bytes = (text: string) => new TextEncoder().encode(text);

function open(pid: number | null = 7) {
  const node = document.createElement('div');
  document.body.replaceChildren(node);
  const transport = new FakeTransport();
  const view = new TerminalView(node, transport, pid);
  view.open();
  const message = () => node.querySelector<HTMLElement>('[role=status]');
  const screen = () => node.querySelector('.xterm-rows')?.textContent ?? '';
  return { node, view, transport, message, screen };
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
    const { transport, screen, message } = open();
    const terminal = transport.terminal();
    expect(terminal.request).toMatchObject({ pid: 7, since: 0 });

    terminal.listener.onStart?.({ pid: 7, sequence: 0 });
    terminal.listener.onData(bytes('hello'), 0);

    await vi.waitFor(() => {
      expect(screen()).toContain('hello');
    });
    expect(message()?.hidden).toBe(true);
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
    const { transport, message } = open();
    transport.terminal().listener.onStart?.({ pid: 7, sequence: 0 });
    transport.terminal().listener.onClose(null);
    expect(message()?.hidden).toBe(false);
    expect(message()?.textContent).toBe('The connection to the terminal is lost. Trying again…');

    vi.advanceTimersByTime(250);
    transport.terminal().listener.onStart?.({ pid: 7, sequence: 0 });

    expect(transport.terminals).toHaveLength(2);
    expect(message()?.hidden).toBe(true);
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

  it('leaves the process alone when it is disposed', () => {
    const { node, view, transport } = open();
    view.dispose();
    expect(transport.terminal().disposed).toBe(true);
    expect(node.childElementCount).toBe(0);
  });
});

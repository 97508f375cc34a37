import type { AnyModel } from '@anywidget/types';
import { describe, expect, it } from 'vitest';

import { ModelTransport } from '../../src/widget/modelTransport';

interface IMessage {
  readonly id: number;
  readonly op: string;
  readonly view: string;
  readonly seq: number;
}

class FakeModel {
  on(_: string, listener: (content: unknown, buffers: DataView[]) => void): void {
    this.listener = listener;
  }

  off(): void {
    this.listener = () => undefined;
  }

  send(content: IMessage, _: unknown, buffers?: ArrayBuffer[]): void {
    this.sent.push(content);
    this.buffers.push(buffers?.[0]);
  }

  answer(content: object, ...buffers: DataView[]): void {
    this.listener(content, buffers);
  }

  last(): IMessage {
    const message = this.sent.at(-1);
    if (!message) {
      throw new Error('nothing was sent');
    }
    return message;
  }

  readonly sent: IMessage[] = [];
  readonly buffers: (ArrayBuffer | undefined)[] = [];
  private listener: (content: unknown, buffers: DataView[]) => void = () => undefined;
}

function start() {
  const model = new FakeModel();
  return { model, transport: new ModelTransport(model as unknown as AnyModel) };
}

const view = (text: string) => new DataView(new TextEncoder().encode(text).buffer);

describe('the way through the kernel', () => {
  it('numbers its messages from 0 under the name of its view', () => {
    const { model, transport } = start();
    void transport.list('/');
    void transport.list('/tmp');

    expect(model.sent.map(message => message.seq)).toEqual([0, 1]);
    expect(new Set(model.sent.map(message => message.view)).size).toBe(1);
  });

  it('matches answers to questions whatever their order', async () => {
    const { model, transport } = start();
    const [one, two] = [transport.list('/a'), transport.list('/b')];
    const [first, second] = model.sent;

    model.answer({ id: second?.id, ok: { entries: [{ name: 'b', path: '/b/b' }] } });
    model.answer({ id: first?.id, ok: { entries: [] } });

    expect(await one).toEqual([]);
    expect(await two).toHaveLength(1);
  });

  it('ignores what another view asked for', async () => {
    const { model, transport } = start();
    const listed = transport.list('/');
    const { id, view: own } = model.last();

    model.answer({ id, view: 'another', ok: { entries: [{ name: 'no', path: '/no' }] } });
    model.answer({ id, view: own, ok: { entries: [] } });

    expect(await listed).toEqual([]);
  });

  it('carries file content as bytes both ways', async () => {
    const { model, transport } = start();
    const read = transport.read('/a');
    model.answer({ id: model.last().id, ok: {} }, view('content'));
    void transport.write('/a', new TextEncoder().encode('new'));

    expect(new TextDecoder().decode(await read)).toBe('content');
    expect(new TextDecoder().decode(model.buffers.at(-1))).toBe('new');
  });

  it('throws what the kernel said went wrong', async () => {
    const { model, transport } = start();
    const removed = transport.remove('/a');
    model.answer({ id: model.last().id, error: { code: 'permission_denied', message: 'no' } });

    await expect(removed).rejects.toMatchObject({ code: 'permission_denied', message: 'no' });
  });

  it('gives terminal output to the terminal that it is for', () => {
    const { model, transport } = start();
    const heard: unknown[] = [];
    const channel = transport.openTerminal(
      { cols: 80, rows: 24, pid: 3 },
      {
        onStart: started => heard.push(started),
        onData: (data, sequence) => heard.push([new TextDecoder().decode(data), sequence]),
        onExit: exit => heard.push(exit),
        onClose: () => heard.push('closed')
      }
    );
    const terminal = model.last().id;
    model.answer({ id: terminal, ok: { pid: 3, sequence: 8 } });
    model.answer({ event: 'terminal_data', terminal, sequence: 8 }, view('out'));
    model.answer({ event: 'terminal_data', terminal: 99, sequence: 8 }, view('other'));
    channel.send(new TextEncoder().encode('in'));
    model.answer({ event: 'terminal_exit', terminal, exit: { code: 0 } });

    expect(heard).toEqual([{ pid: 3, sequence: 8 }, ['out', 8], { code: 0 }]);
    expect(model.last()).toMatchObject({ op: 'terminal_input', terminal });
  });

  it('fails what still waits when the view is closed', async () => {
    const { transport } = start();
    const listed = transport.list('/');
    transport.dispose();

    await expect(listed).rejects.toMatchObject({ code: 'canceled' });
  });
});

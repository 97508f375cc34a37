import { Signal } from '@lumino/signaling';
import { describe, expect, it, vi } from 'vitest';

import { WidgetBridge } from '../../../src/lab/widgets/widgetBridge';
import type { IToFrame } from '../../../src/protocol/widgetFrames';

/** A kernel that notes what it is sent, in the notebook that a bridge stands in. */
function open() {
  const owner = {};
  const sent: { content: { comm_id: string; data: unknown } }[] = [];
  const hooks = new Map<string, (message: unknown) => boolean>();
  const finish: (() => void)[] = [];
  const kernel = {
    username: '',
    clientId: 'c',
    sendShellMessage: (msg: (typeof sent)[number]) => {
      sent.push(msg);
      return { msg, done: new Promise<void>(resolve => finish.push(resolve)) };
    },
    registerMessageHook: (id: string, hook: (message: unknown) => boolean) => hooks.set(id, hook),
    removeMessageHook: (id: string) => hooks.delete(id)
  };
  const session = {
    iopubMessage: new Signal<object, unknown>(owner),
    kernelChanged: new Signal<object, unknown>(owner),
    statusChanged: new Signal<object, unknown>(owner),
    session: { kernel }
  };
  const bridge = new WidgetBridge(session as never);
  const tell = (data: unknown, parent = '', comm_id = 'sbx-jupyter:widgets', buffers: ArrayBuffer[] = []) => {
    session.iopubMessage.emit({
      header: { msg_type: 'comm_msg' },
      parent_header: { msg_id: parent },
      content: { comm_id, data },
      buffers
    });
  };
  const opened = (id: string, state: object) => {
    tell({ kind: 'comm_open', comm_id: id, message: { state } });
  };
  return { bridge, session, sent, hooks, finish, tell, opened };
}

function frame() {
  const heard: IToFrame[] = [];
  return { heard, post: (message: IToFrame) => heard.push(message), kernelGone: vi.fn() };
}

async function turn() {
  await new Promise(resolve => setTimeout(resolve, 0));
}

describe('WidgetBridge', () => {
  it('gives a frame the widget that it asks for and its changes, and no other', async () => {
    const { bridge, tell, opened } = open();
    const one = frame();
    opened('a', { x: 1 });
    opened('b', { x: 1 });
    bridge.get(one, 'a');
    await turn();
    tell({ kind: 'comm_msg', comm_id: 'a', message: { method: 'update', state: { x: 2 } } });
    tell({ kind: 'comm_msg', comm_id: 'b', message: { method: 'update', state: { x: 2 } } });

    expect(one.heard.map(message => [message.type, 'id' in message ? message.id : ''])).toEqual([
      ['model', 'a'],
      ['message', 'a']
    ]);
  });

  it('passes messages on to widgets that the frame has, and says when the kernel is done', async () => {
    const { bridge, sent, finish, tell, opened } = open();
    const one = frame();
    opened('a', {});
    opened('b', {});
    bridge.get(one, 'a');
    await turn();
    const update = { method: 'update', state: { x: 1 }, buffer_paths: [] };
    bridge.send(one, 'a', update, [], 7);
    bridge.send(one, 'b', update, [], 8);
    bridge.send(one, 'a', { method: 'request_states' }, [], 9);

    expect(sent.map(({ content }) => content)).toEqual([{ comm_id: 'a', data: update }]);
    const id = (sent[0] as never as { header: { msg_id: string } }).header.msg_id;
    tell({ kind: 'comm_msg', comm_id: 'a', message: { method: 'echo_update', state: { x: 1 } } }, id);
    finish[0]?.();
    await turn();
    expect(one.heard.slice(1)).toMatchObject([{ type: 'message', cause: 7 }, { type: 'idle', cause: 7 }]);
  });

  it('asks the kernel for a widget that was there before the page', async () => {
    const { bridge, sent, tell } = open();
    const one = frame();
    bridge.get(one, 'a');
    expect(sent[0]?.content).toEqual({ comm_id: 'a', data: { method: 'request_state' } });
    tell({ kind: 'comm_msg', comm_id: 'a', message: { method: 'update', state: { x: 1 } } });
    await turn();
    expect(one.heard).toMatchObject([{ type: 'model', id: 'a', message: { state: { x: 1 } } }]);
  });

  it('collects what belongs to an output widget, and leaves the rest to the cell', async () => {
    const { bridge, hooks, tell, opened } = open();
    const one = frame();
    opened('out', { _model_name: 'OutputModel', msg_id: '', outputs: [] });
    bridge.get(one, 'out');
    await turn();
    tell({ kind: 'comm_msg', comm_id: 'out', message: { method: 'update', state: { msg_id: 'm' } } });
    const hook = hooks.get('m');
    const stream = (text: string) => ({ header: { msg_type: 'stream' }, content: { name: 'stdout', text } });
    expect(hook?.(stream('a'))).toBe(false);
    expect(hook?.(stream('b'))).toBe(false);
    expect(hook?.({ header: { msg_type: 'status' }, content: {} })).toBe(true);
    tell({ kind: 'comm_msg', comm_id: 'out', message: { method: 'update', state: { msg_id: '' } } });

    expect(hooks.size).toBe(0);
    const states = one.heard.flatMap(message => (message.type === 'message' ? [message.message['state']] : []));
    expect(states).toContainEqual({ outputs: [{ output_type: 'stream', name: 'stdout', text: 'ab' }] });
  });

  it('gives the cell its outputs back when the output widget is closed', () => {
    const { hooks, tell, opened } = open();
    opened('out', { _model_name: 'OutputModel', msg_id: 'm', outputs: [] });
    expect(hooks.size).toBe(1);

    tell({ kind: 'comm_close', comm_id: 'out' });

    expect(hooks.size).toBe(0);
  });

  it('asks the kernel that comes later for what is waited for', async () => {
    const { bridge, session, sent, tell } = open();
    const { kernel } = session.session;
    const waiting = { ...session, session: { kernel: null as typeof kernel | null } };
    const late = new WidgetBridge(waiting as never);
    const known = late.known('a');
    expect(sent).toEqual([]);

    waiting.session.kernel = kernel;
    session.kernelChanged.emit({});
    expect(sent.map(({ content }) => content.comm_id)).toEqual(['a']);
    tell({ kind: 'comm_msg', comm_id: 'a', message: { method: 'update', state: {} } });

    await expect(known).resolves.toBeUndefined();
    bridge.dispose();
  });

  it('says that a widget is missing which is too large to keep', async () => {
    const { bridge, tell } = open();
    const one = frame();
    bridge.get(one, 'a');
    const message = { method: 'update', state: {}, buffer_paths: [['x']] };
    tell({ kind: 'comm_msg', comm_id: 'a', message }, '', undefined, [new ArrayBuffer(129 * 1024 * 1024)]);
    await turn();

    expect(one.heard).toEqual([{ type: 'missing', id: 'a' }]);
  });

  it('hears nothing more once the view of its notebook is closed', async () => {
    const { bridge, session, hooks, opened } = open();
    const one = frame();
    opened('out', { _model_name: 'OutputModel', msg_id: 'm', outputs: [] });
    bridge.get(one, 'out');
    await turn();

    bridge.dispose();
    opened('later', {});
    session.statusChanged.emit('restarting');

    expect(one.kernelGone).toHaveBeenCalledOnce();
    expect(hooks.size).toBe(0);
  });

  it('forgets everything when the kernel restarts', async () => {
    const { bridge, session, opened } = open();
    const one = frame();
    opened('a', {});
    bridge.get(one, 'a');
    await turn();
    session.statusChanged.emit('restarting');
    expect(one.kernelGone).toHaveBeenCalledOnce();
    bridge.send(one, 'a', { method: 'custom' }, [], 1);
    expect(one.heard).toHaveLength(1);
  });

  it.each([null, 'x', {}, { kind: 'comm_open' }, { kind: 'comm_open', comm_id: '../', message: {} }])(
    'is not broken by %o',
    data => {
      const { tell } = open();
      expect(() => {
        tell(data);
      }).not.toThrow();
    }
  );
});

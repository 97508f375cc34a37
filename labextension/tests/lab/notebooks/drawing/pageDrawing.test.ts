import type { Kernel, KernelMessage } from '@jupyterlab/services';
import { beforeEach, describe, expect, it, vi } from 'vitest';

import { guardComms } from '../../../../src/lab/notebooks/drawing/directComms';
import { parseEnding } from '../../../../src/lab/notebooks/kernelEnding';
import { PageDrawing } from '../../../../src/lab/notebooks/drawing/pageDrawing';

beforeEach(() => {
  vi.useFakeTimers();
});

function setUp(answer: () => Promise<void> = () => Promise.resolve()) {
  const letDraw = vi.fn<(kernel: string, mark: string, seconds: number) => Promise<void>>(answer);
  const stored = new Map<string, string>();
  const kept = {
    fetch: (id: string) => Promise.resolve(stored.get(id)),
    save: (id: string, value: string) => Promise.resolve(stored.set(id, value)),
    remove: (id: string) => Promise.resolve(stored.delete(id))
  };
  return { drawing: new PageDrawing({ letDraw }, kept), letDraw, stored };
}

describe('a kernel that may draw in the page', () => {
  it('has a mark that only this page knows, and is asked for again', async () => {
    const { drawing, letDraw } = setUp();
    expect(drawing.isOn('k1')).toBe(false);

    await drawing.start('k1');

    const mark = letDraw.mock.calls[0]?.[1] ?? '';
    expect(mark.length).toBeGreaterThan(30);
    expect(drawing.allows('k1', ['another', mark])).toBe(true);
    expect(drawing.allows('k1', ['another'])).toBe(false);
    expect(drawing.allows('k1', mark)).toBe(false);
    expect(drawing.allows('k2', [mark])).toBe(false);
    await vi.advanceTimersByTimeAsync(100_000);
    expect(letDraw).toHaveBeenCalledTimes(2);
  });

  it('is confined again, also when the server forgot it', async () => {
    const { drawing, letDraw } = setUp();
    await drawing.start('k1');
    await drawing.stop('k1');
    expect(letDraw.mock.calls.at(-1)?.[2]).toBe(0);
    expect(drawing.isOn('k1')).toBe(false);

    await drawing.start('k1');
    letDraw.mockRejectedValue(new Error('no kernel'));
    await vi.advanceTimersByTimeAsync(100_000);
    expect(drawing.isOn('k1')).toBe(false);
  });

  it('is not drawn if the server refuses', async () => {
    const { drawing } = setUp(() => Promise.reject(new Error('no')));
    await expect(drawing.start('k1')).rejects.toThrow('no');
    expect(drawing.isOn('k1')).toBe(false);
  });

  it('is kept by path with its sandbox until it is forgotten', async () => {
    const { drawing } = setUp();
    await drawing.keep('a.ipynb', 'i1');
    expect(await drawing.keptFor('a.ipynb')).toBe('i1');
    expect(await drawing.keptFor('b.ipynb')).toBeUndefined();
    await drawing.keep('a.ipynb', undefined);
    expect(await drawing.keptFor('a.ipynb')).toBeUndefined();
  });
});

describe('a comm of a kernel', () => {
  type Open = (comm: Kernel.IComm, message: KernelMessage.ICommOpenMsg) => void;

  function connect(name: string) {
    const targets = new Map<string, Open>();
    const connection = { name, registerCommTarget: (target: string, open: Open) => targets.set(target, open) };
    const kernels = { connectTo: () => connection as unknown as Kernel.IKernelConnection };
    guardComms(
      kernels,
      kernel => kernel === 'sandboxed',
      (_, marks) => Array.isArray(marks) && marks.includes('ours')
    );
    const guarded = kernels.connectTo();
    const comm = { dispose: vi.fn() };
    const deliver = (metadata: object) =>
      targets.get('jupyter.widget')?.(
        comm as unknown as Kernel.IComm,
        { metadata } as unknown as KernelMessage.ICommOpenMsg
      );
    return { guarded, comm, deliver };
  }

  it('is opened only by a message with the mark of this page', () => {
    const { guarded, comm, deliver } = connect('sandboxed');
    const open = vi.fn();
    guarded.registerCommTarget('jupyter.widget', open);
    deliver({});
    deliver({ sbx_jupyter_marks: ['theirs'] });
    expect(open).not.toHaveBeenCalled();
    expect(comm.dispose).toHaveBeenCalledTimes(2);
    deliver({ sbx_jupyter_marks: ['ours'] });
    expect(open).toHaveBeenCalledTimes(1);
  });

  it('is not closed in the kernel where no code of the page takes it', () => {
    const { comm, deliver } = connect('sandboxed');
    deliver({});
    expect(comm.dispose).toHaveBeenCalledTimes(1);
  });

  it('is opened as ever by a kernel of the host', () => {
    const { guarded, deliver } = connect('host');
    const open = vi.fn();
    guarded.registerCommTarget('jupyter.widget', open);
    deliver({});
    expect(open).toHaveBeenCalledTimes(1);
  });
});

describe('the end of a kernel', () => {
  const content = {
    comm_id: 'sbx-jupyter:kernel-ended',
    data: { cause: 'memory', memoryMB: 512, filesKept: true }
  };

  it('is read where a larger sandbox would help', () => {
    expect(parseEnding('comm_msg', content)).toEqual({ cause: 'memory', memoryMB: 512 });
    expect(parseEnding('comm_msg', { ...content, data: { ...content.data, cause: 'other' } })).toBeUndefined();
    expect(parseEnding('comm_msg', { ...content, comm_id: 'x' })).toBeUndefined();
    expect(parseEnding('stream', content)).toBeUndefined();
  });
});

import type { JupyterFrontEnd } from '@jupyterlab/application';
import { Signal } from '@lumino/signaling';
import { describe, expect, it, vi } from 'vitest';

import { CurrentNotebook } from '../../../src/lab/notebooks/currentNotebook';
import type { ISpecs } from '../../../src/lab/notebooks/sandboxedKernels';

/** A document with a kernel, as far as it is looked at. */
class Session {
  readonly kernelChanged = new Signal<this, unknown>(this);
  readonly disposed = new Signal<this, void>(this);
  session: { kernel: { id: string; name: string } | null } | null;

  constructor(
    readonly path: string,
    kernel: string | null,
    name = 'sbx-python3'
  ) {
    this.session = kernel === null ? null : { kernel: { id: kernel, name } };
  }
}

function setUp() {
  const places: Record<string, string> = { k1: 'i1', k2: 'i2' };
  const changed = new Signal<object, void>({});
  const refresh = vi.fn(() => Promise.resolve());
  const currentChanged = new Signal<object, void>({});
  const shell = { currentWidget: null as object | null, currentChanged };
  const sandboxOfKernel = (id: string) => places[id];
  const sandboxes = { changed, refresh, sandboxOfKernel } as unknown as ConstructorParameters<typeof CurrentNotebook>[1];
  const metadata = { kernel_provisioner: { provisioner_name: 'sbx-provisioner' } };
  const specs = { specs: { kernelspecs: { 'sbx-python3': { metadata } } } } as unknown as ISpecs;
  const notebook = new CurrentNotebook(shell as unknown as JupyterFrontEnd.IShell, sandboxes, specs);
  const show = (sessionContext: Session | null) => {
    shell.currentWidget = sessionContext === null ? {} : { sessionContext };
    currentChanged.emit();
  };
  return { notebook, show, places, changed, refresh };
}

describe('the sandbox of the document in front', () => {
  it('is that of its kernel, and stays while a panel without a kernel is in front', () => {
    const { notebook, show } = setUp();
    show(new Session('sbx:i1/home/work.ipynb', 'k1'));
    expect([notebook.sandboxId, notebook.name]).toEqual(['i1', 'work.ipynb']);
    show(null);
    expect(notebook.sandboxId).toBe('i1');
    show(new Session('other.ipynb', 'k2'));
    expect(notebook.sandboxId).toBe('i2');
  });

  it('is looked up when a kernel has just started', () => {
    const { notebook, show, places, changed, refresh } = setUp();
    show(new Session('new.ipynb', 'k3'));
    expect(notebook.sandboxId).toBeUndefined();
    expect(refresh).toHaveBeenCalledOnce();
    places['k3'] = 'i3';
    changed.emit();
    expect(notebook.sandboxId).toBe('i3');
  });

  it('is not looked up for a kernel of the host', () => {
    const { notebook, show, refresh } = setUp();
    show(new Session('plain.ipynb', 'k4', 'python3'));
    expect(notebook.sandboxId).toBeUndefined();
    expect(refresh).not.toHaveBeenCalled();
  });

  it('ends with the kernel and with the document', () => {
    const { notebook, show } = setUp();
    const seen = vi.fn();
    notebook.changed.connect(seen);
    const session = new Session('work.ipynb', 'k1');
    show(session);
    session.session = null;
    session.kernelChanged.emit(null);
    expect(notebook.sandboxId).toBeUndefined();
    show(new Session('other.ipynb', 'k2'));
    expect(seen).toHaveBeenCalledTimes(3);
  });
});

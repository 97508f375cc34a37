import type { IBuffers, IJson, IWidgetState } from '../../protocol/widgetFrames';

/** Widgets of one kernel whose state is kept. */
const MAX_WIDGETS = 10_000;

/** Members of one widget's state, and buffers in them. */
const MAX_MEMBERS = 10_000;

/** Characters and bytes of state that are kept for one kernel. */
const MAX_SIZE = 128 * 1024 * 1024;

interface IBinary {
  readonly path: (string | number)[];
  readonly buffer: ArrayBuffer | ArrayBufferView;
}

interface IEntry {
  state: IJson;
  binaries: IBinary[];
  /** The size of each member of the state, so that an update costs no more than what it changes. */
  sizes: Map<string, number>;
}

/** The state of a kernel's widgets as its messages have left it, up to a size. */
export class WidgetStates {
  constructor(private readonly mostSize = MAX_SIZE) {}

  /** Takes the whole state of a widget; returns whether it is kept. */
  open(id: string, message: IJson, buffers: IBuffers): boolean {
    this.close(id);
    if (this.entries.size >= MAX_WIDGETS) {
      return false;
    }
    this.entries.set(id, { state: {}, binaries: [], sizes: new Map() });
    return this.update(id, message, buffers);
  }

  /** Takes the members of the state that changed; returns whether the widget is kept. */
  update(id: string, message: IJson, buffers: IBuffers): boolean {
    const entry = this.entries.get(id);
    const state = message['state'];
    if (entry === undefined || !isJson(state)) {
      return entry !== undefined;
    }
    // Before anything looks at each member: a kernel may send a million of them with every message.
    if (Object.keys(state).length > MAX_MEMBERS || buffers.length > MAX_MEMBERS) {
      this.close(id);
      return false;
    }
    const paths = parsePaths(message['buffer_paths']);
    const binaries = paths.slice(0, buffers.length).map((path, at) => ({ path, buffer: buffers[at] as ArrayBuffer }));
    const sizes = measure(state, binaries);
    for (const [name, size] of sizes) {
      this.size += size - (entry.sizes.get(name) ?? 0);
      entry.sizes.set(name, size);
    }
    entry.binaries = [...entry.binaries.filter(binary => !sizes.has(memberOf(binary))), ...binaries];
    if (this.size > this.mostSize || entry.sizes.size > MAX_MEMBERS || entry.binaries.length > MAX_MEMBERS) {
      this.close(id);
      return false;
    }
    entry.state = { ...entry.state, ...state };
    return true;
  }

  /** Forgets a widget. */
  close(id: string): void {
    for (const size of this.entries.get(id)?.sizes.values() ?? []) {
      this.size -= size;
    }
    this.entries.delete(id);
  }

  /** Forgets all widgets. */
  clear(): void {
    this.entries.clear();
    this.size = 0;
  }

  has(id: string): boolean {
    return this.entries.has(id);
  }

  /** One member of a widget's state. */
  member(id: string, name: string): unknown {
    return this.entries.get(id)?.state[name];
  }

  /** The whole state of a widget as a message would bring it. */
  get(id: string): { readonly message: IWidgetState; readonly buffers: IBuffers } | undefined {
    const entry = this.entries.get(id);
    return (
      entry && {
        message: { state: entry.state, buffer_paths: entry.binaries.map(({ path }) => path) },
        buffers: entry.binaries.map(({ buffer }) => buffer)
      }
    );
  }

  private size = 0;
  private readonly entries = new Map<string, IEntry>();
}

/** The member of the state in which a buffer has its place. */
function memberOf({ path }: IBinary): string {
  return String(path[0]);
}

/** The size of each member that a message changes, with the buffers in it. */
function measure(state: IJson, binaries: readonly IBinary[]): Map<string, number> {
  const sizes = new Map<string, number>();
  for (const [name, value] of Object.entries(state)) {
    sizes.set(name, name.length + (JSON.stringify(value)?.length ?? 0));
  }
  for (const binary of binaries) {
    const name = memberOf(binary);
    const size = JSON.stringify(binary.path).length + binary.buffer.byteLength;
    sizes.set(name, (sizes.get(name) ?? name.length) + size);
  }
  return sizes;
}

function parsePaths(value: unknown): (string | number)[][] {
  const isPath = (path: unknown): path is (string | number)[] =>
    Array.isArray(path) && path.length > 0 && path.every(part => typeof part === 'string' || typeof part === 'number');
  return Array.isArray(value) && value.every(isPath) ? value : [];
}

/** Whether a value is an object of JSON. */
export function isJson(value: unknown): value is IJson {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

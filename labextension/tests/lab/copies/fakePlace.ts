import type { ICopyEntry, ICopyPlace } from '../../../src/lab/copies/places';

/** A place in memory; folders have the contents `null`. */
export class FakePlace implements ICopyPlace {
  constructor(files: Readonly<Record<string, string | null>>) {
    this.files = new Map(Object.entries(files));
  }

  entry(path: string): ICopyEntry {
    const content = this.files.get(path);
    const kind = content !== null ? 'file' : this.links.has(path) ? 'link to a directory' : 'directory';
    return { name: path.slice(path.lastIndexOf('/') + 1), path, kind, size: content?.length ?? 0 };
  }

  all(): ICopyEntry[] {
    return [...this.files.keys()].map(path => this.entry(path));
  }

  contents(): Record<string, string | null> {
    return Object.fromEntries(this.files);
  }

  find(path: string): Promise<ICopyEntry | null> {
    return Promise.resolve(this.files.has(path) ? this.entry(path) : null);
  }

  list(path: string): Promise<readonly ICopyEntry[]> {
    const inside = (name: string) => name.startsWith(`${path}/`) && !name.slice(path.length + 1).includes('/');
    return Promise.resolve([...this.files.keys()].filter(inside).map(name => this.entry(name)));
  }

  read(path: string): Promise<Blob> {
    this.onRead();
    return this.unreadable.has(path)
      ? Promise.reject(new Error('not allowed'))
      : Promise.resolve(new Blob([this.files.get(path) ?? '']));
  }

  async write(path: string, content: Blob): Promise<void> {
    this.files.set(path, await content.text());
  }

  makeDir(path: string): Promise<void> {
    this.files.set(path, null);
    return Promise.resolve();
  }

  onRead: () => void = () => undefined;
  readonly unreadable = new Set<string>();
  readonly links = new Set<string>();
  private readonly files: Map<string, string | null>;
}

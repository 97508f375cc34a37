import type { Contents, ServerConnection } from '@jupyterlab/services';
import type { ISignal } from '@lumino/signaling';
import { Signal } from '@lumino/signaling';

import { trans } from '../../components/translation';
import { basename } from '../../components/files/paths';
import type { ServerTransport } from '../../components/serverTransport';
import type { Dispose } from '../../components/transport';
import type { IUploadOptions } from '../../components/files/upload';
import { SandboxError } from '../../protocol/errors';
import type { IEntryInfo } from '../../protocol/runtime';
import { isDirectory } from '../../protocol/runtime';
import { bytesFromContent, ChunkedUploads, contentFromBytes } from './driveContent';
import type { IDescribe } from './driveModel';
import { entryModel, rootModel, splitPath } from './driveModel';
import { Listings } from './listings';
import { NotebookTrust } from './notebookTrust';
import { copyOnServer } from '../copies/serverCopy';
import type { Sandboxes } from '../sandboxes';
import type { ITrashed } from './trash';
import { exists, isInTrash, moveToTrash, putBack } from './trash';

/** The name of the drive: what stands before the colon of its paths. */
export const DRIVE_NAME = 'sbx';
/** Milliseconds between a change in the shown directory and its signal. */
const CHANGE_DELAY = 500;
/** Number of names that are tried for an untitled file or a copy. */
const MAX_NAMES = 1000;

/** A drive with the files of every sandbox: `sbx:<sandbox id>/<path>`. */
export class SandboxDrive implements Contents.IDrive {
  constructor(
    private readonly sandboxes: Sandboxes,
    readonly serverSettings: ServerConnection.ISettings,
    private readonly describe: IDescribe,
    private readonly hasTrash = false
  ) {}

  /** Emitted after something was moved to the trash of its sandbox; `putBack` undoes it. */
  get trashed(): ISignal<this, { readonly name: string; readonly putBack: () => Promise<void> }> {
    return this.trashedSignal;
  }

  /** Emitted with the path of a file that JupyterLab cannot show. */
  get unreadable(): ISignal<this, string> {
    return this.unreadableSignal;
  }

  get fileChanged(): ISignal<this, Contents.IChangedArgs> {
    return this.changed;
  }

  get isDisposed(): boolean {
    return this.disposed;
  }

  async get(localPath: string, options: Contents.IFetchOptions = {}): Promise<Contents.IModel> {
    const { sandboxId, path } = splitPath(localPath);
    if (sandboxId === '') {
      await this.sandboxes.refresh();
      return rootModel(this.sandboxes.items ?? []);
    }
    // JupyterLab asks for the directory that it shows every ten seconds, which may wake the sandbox.
    if (this.listings.get(localPath) !== undefined && this.sandboxes.stateOf(sandboxId) === 'paused') {
      throw new SandboxError('failed_precondition', trans.__('The sandbox is paused.'));
    }
    const transport = this.sandboxes.transport(sandboxId);
    const entry = path === '/' ? rootEntry : await transport.stat(path);
    const model = entryModel(localPath, entry, this.describe);
    if (options.content === false) {
      return model;
    }
    if (isDirectory(entry)) {
      this.follow(localPath, transport, path);
      const { limit, filter } = this.listings.wanted(localPath);
      const entries = this.listings.note(localPath, await transport.listFirst(path, limit, filter), filter);
      const content = entries.map(child => entryModel(join(localPath, child.name), child, this.describe));
      return { ...model, content, format: 'json' };
    }
    const bytes = await transport.read(path);
    const read = this.contentOf(localPath, bytes, model, options);
    const content = read.format === 'json' ? this.trust.opened(localPath, read.content) : (read.content as unknown);
    return { ...model, ...read, content };
  }

  async save(localPath: string, options: Partial<Contents.IModel> & { chunk?: number } = {}): Promise<Contents.IModel> {
    const { transport, path } = this.entryInside(localPath);
    if (options.type === 'directory') {
      await transport.makeDir(path);
    } else {
      const content: unknown =
        options.format === 'json' ? this.trust.saved(localPath, options.content) : options.content;
      const bytes = bytesFromContent(content, options.format ?? null);
      const whole = this.uploads.add(localPath, bytes, options.chunk);
      if (whole === null) {
        return entryModel(localPath, { name: basename(path), path, type: 'FILE_TYPE_FILE' }, this.describe);
      }
      await transport.write(path, whole);
    }
    const model = entryModel(localPath, await transport.stat(path), this.describe);
    this.changed.emit({ type: 'save', oldValue: null, newValue: model });
    return model;
  }

  /** Whether a directory of a sandbox has an entry, also one that its listing leaves out. */
  async has(localDir: string, name: string): Promise<boolean> {
    const { transport, path } = this.entryInside(join(localDir, name));
    return exists(transport, path);
  }

  /** Uploads a file of any size in one request into a directory of a sandbox. */
  async upload(localDir: string, file: File, options: IUploadOptions): Promise<Contents.IModel> {
    const { transport, path } = this.entryInside(join(localDir, file.name));
    await transport.upload(path, file, options);
    const model = entryModel(join(localDir, file.name), await transport.stat(path), this.describe);
    return this.created(model);
  }

  async newUntitled(options: Contents.ICreateOptions = {}): Promise<Contents.IModel> {
    const { transport, path } = this.inside(options.path ?? '');
    const taken = new Set((await transport.list(path)).map(entry => entry.name));
    const name = untitledName(options, taken);
    const localPath = join(options.path ?? '', name);
    if (options.type === 'directory') {
      return this.created(await this.save(localPath, { type: 'directory' }));
    }
    const content = options.type === 'notebook' ? EMPTY_NOTEBOOK : '';
    const format = options.type === 'notebook' ? 'json' : 'text';
    return this.created(await this.save(localPath, { type: options.type ?? 'file', format, content }));
  }

  async delete(localPath: string): Promise<void> {
    const { transport, path } = this.entryInside(localPath);
    if (this.hasTrash && !isInTrash(path)) {
      const trashed = await moveToTrash(transport, path);
      this.trashedSignal.emit({ name: basename(path), putBack: () => this.putBack(localPath, transport, trashed) });
    } else {
      await transport.remove(path);
    }
    this.changed.emit({ type: 'delete', oldValue: { path: localPath }, newValue: null });
  }

  async rename(oldLocalPath: string, newLocalPath: string): Promise<Contents.IModel> {
    const [from, to] = [this.entryInside(oldLocalPath), this.entryInside(newLocalPath)];
    if (from.sandboxId !== to.sandboxId) {
      throw new SandboxError('invalid_argument', trans.__('A file cannot be moved to another sandbox; copy it instead.'));
    }
    // The move itself would replace what is there.
    if (to.path !== from.path && (await exists(to.transport, to.path))) {
      throw new NameTakenError(to.path);
    }
    await from.transport.move(from.path, to.path);
    this.trust.renamed(oldLocalPath, newLocalPath);
    const model = entryModel(newLocalPath, await to.transport.stat(to.path), this.describe);
    this.changed.emit({ type: 'rename', oldValue: { path: oldLocalPath }, newValue: model });
    return model;
  }

  async copy(localPath: string, toLocalDir: string): Promise<Contents.IModel> {
    const [from, to] = [this.entryInside(localPath), this.inside(toLocalDir)];
    const taken = new Set((await to.transport.list(to.path)).map(entry => entry.name));
    const name = freeName(basename(from.path), taken, '-Copy');
    const target = this.inside(join(toLocalDir, name));
    await this.copyTo(from, target);
    const model = entryModel(join(toLocalDir, name), await target.transport.stat(target.path), this.describe);
    return this.created(model);
  }

  /** The address from which a folder is downloaded as a zip. */
  getArchiveUrl(localPath: string): string {
    const { transport, path } = this.inside(localPath);
    return transport.archiveUrl(path);
  }

  getDownloadUrl(localPath: string): Promise<string> {
    const { transport, path } = this.inside(localPath);
    return Promise.resolve(transport.fileUrl(path));
  }

  /** Returns a placeholder: there are no checkpoints, but the document manager asks after each save. */
  createCheckpoint(): Promise<Contents.ICheckpointModel> {
    return Promise.resolve({ id: 'none', last_modified: new Date().toISOString() });
  }

  listCheckpoints(): Promise<Contents.ICheckpointModel[]> {
    return Promise.resolve([]);
  }

  restoreCheckpoint(): Promise<void> {
    return Promise.reject(new SandboxError('unimplemented', trans.__('Sandbox files have no checkpoints.')));
  }

  deleteCheckpoint(): Promise<void> {
    return Promise.resolve();
  }

  dispose(): void {
    if (!this.disposed) {
      this.disposed = true;
      this.stopFollowing?.();
      window.clearTimeout(this.timer);
      Signal.clearData(this);
    }
  }

  /** Watches the directory that was listed last, so that the browser sees changes made inside. */
  private follow(localPath: string, transport: ServerTransport, path: string): void {
    if (this.followed === localPath) {
      return;
    }
    this.stopFollowing?.();
    this.followed = localPath;
    const end = () => {
      if (this.followed === localPath) {
        this.followed = null;
      }
    };
    this.stopFollowing = transport.watch(
      path,
      event => {
        window.clearTimeout(this.timer);
        this.timer = window.setTimeout(() => {
          // Without a last_modified, so that an open editor does not take it for its own save.
          this.changed.emit({ type: 'save', oldValue: null, newValue: { path: join(localPath, event.name) } });
        }, CHANGE_DELAY);
      },
      end
    );
  }

  /** The content in the form that is asked for; tells of a file that does not have it. */
  private contentOf(localPath: string, bytes: Uint8Array, model: Contents.IModel, options: Contents.IFetchOptions) {
    try {
      return contentFromBytes(bytes, options.type ?? model.type, options.format ?? null, model.mimetype);
    } catch (reason) {
      this.unreadableSignal.emit(localPath);
      throw reason;
    }
  }

  /** Copies a file or a folder with all that is below it; throws what the first file that failed says. */
  private async copyTo(from: IInside, to: IInside): Promise<void> {
    const { signal } = new AbortController();
    const copy = {
      sourceSandboxID: from.sandboxId,
      targetSandboxID: to.sandboxId,
      jobs: [{ source: from.path, target: to.path }],
      existing: 'fail'
    } as const;
    const { failures } = await copyOnServer(this.sandboxes.api, copy, { signal });
    const [failure] = failures;
    if (failure !== undefined) {
      throw new SandboxError('unknown', trans.__('%1 was not copied. %2', failure.name, failure.message));
    }
  }

  private inside(localPath: string): IInside {
    const { sandboxId, path } = splitPath(localPath);
    if (sandboxId === '') {
      throw new SandboxError('invalid_argument', trans.__('Open a sandbox first: the top level holds only sandboxes.'));
    }
    return { sandboxId, path, transport: this.sandboxes.transport(sandboxId) };
  }

  /** Like `inside`, but refuses the root directory of a sandbox. */
  private entryInside(localPath: string): IInside {
    const place = this.inside(localPath);
    if (place.path === '/') {
      throw new SandboxError('invalid_argument', trans.__('Sandboxes are made and killed in the Sandboxes panel.'));
    }
    return place;
  }

  private async putBack(localPath: string, transport: ServerTransport, trashed: ITrashed): Promise<void> {
    await putBack(transport, trashed);
    this.created(entryModel(localPath, await transport.stat(trashed.path), this.describe));
  }

  private created(model: Contents.IModel): Contents.IModel {
    this.changed.emit({ type: 'new', oldValue: null, newValue: model });
    return model;
  }

  readonly name = DRIVE_NAME;
  /** The part of each directory that is shown. */
  readonly listings = new Listings();
  private readonly changed = new Signal<this, Contents.IChangedArgs>(this);
  private readonly trashedSignal = new Signal<this, { readonly name: string; readonly putBack: () => Promise<void> }>(this);
  private readonly unreadableSignal = new Signal<this, string>(this);
  private readonly uploads = new ChunkedUploads();
  private readonly trust = new NotebookTrust();
  private followed: string | null = null;
  private stopFollowing: Dispose | null = null;
  private timer = 0;
  private disposed = false;
}

/** Something has the name already; JupyterLab then asks whether to replace it, for which it looks at the status. */
class NameTakenError extends SandboxError {
  constructor(path: string) {
    super('already_exists', trans.__('%1 exists already.', path));
  }

  readonly response = { status: 409 };
}

interface IInside {
  readonly sandboxId: string;
  readonly path: string;
  readonly transport: ServerTransport;
}

const rootEntry: IEntryInfo = { name: '', path: '/', type: 'FILE_TYPE_DIRECTORY' };

const EMPTY_NOTEBOOK = { cells: [], metadata: {}, nbformat: 4, nbformat_minor: 5 };

const join = (directory: string, name: string): string => (directory === '' ? name : `${directory}/${name}`);

function untitledName(options: Contents.ICreateOptions, taken: ReadonlySet<string>): string {
  if (options.type === 'directory') {
    return freeName(trans.__('Untitled Folder'), taken, ' ');
  }
  const suffix = options.type === 'notebook' ? '.ipynb' : (options.ext ?? '.txt');
  const stem = options.type === 'notebook' ? 'Untitled' : 'untitled';
  return freeName(stem + (suffix.startsWith('.') ? suffix : `.${suffix}`), taken, '');
}

/** Returns the name, numbered before its extension if it is taken. */
export function freeName(name: string, taken: ReadonlySet<string>, mark: string): string {
  const dot = name.lastIndexOf('.');
  const [stem, extension] = dot > 0 ? [name.slice(0, dot), name.slice(dot)] : [name, ''];
  for (let count = 0; count < MAX_NAMES; count += 1) {
    const candidate = count === 0 ? name : `${stem}${mark}${count}${extension}`;
    if (!taken.has(candidate)) {
      return candidate;
    }
  }
  throw new SandboxError('already_exists', trans.__('There are too many files named like %1.', name));
}

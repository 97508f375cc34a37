import { messageOf, SandboxError } from '../../protocol/errors';
import type { IEntryInfo } from '../../protocol/runtime';
import { isDirectory, sizeOf } from '../../protocol/runtime';
import { element, iconButton } from '../dom';
import { FileEditor } from './fileEditor';
import { FileTree } from './fileTree';
import { formatBytes } from '../format';
import * as icons from '../icons';
import { trans } from '../translation';
import { watchLastingly } from './lastingWatch';
import { basename, dirname, joinPath } from './paths';
import { InlineDialog } from '../inlineDialog';
import type { Dispose, ISandboxTransport } from '../transport';
import { isAbort } from './upload';
import { TransferBar } from './transferBar';

/** Size limit for opening a file, in bytes; larger ones can be downloaded. */
const MAX_OPEN = 1024 * 1024;
/** Milliseconds between a change in the sandbox and reading the directories again. */
const REDRAW_DELAY = 300;

/** Learns what the user looks at. */
export interface IFilesObserver {
  readonly onPath?: (path: string) => void;
  readonly onSelect?: (path: string) => void;
}

/** A file browser for pages without JupyterLab: a tree, a small editor, upload and download. */
export class FilesView {
  constructor(
    readonly node: HTMLElement,
    private readonly transport: ISandboxTransport,
    private root: string,
    private readonly observer: IFilesObserver = {}
  ) {
    node.classList.add('sbx-Files');
    this.path = element('input', 'sbx-Files-path', { 'aria-label': trans.__('Directory'), spellcheck: 'false', value: root });
    this.path.addEventListener('change', () => {
      this.go(this.path.value.trim() || '/');
    });
    this.message = element('p', 'sbx-Files-message', { role: 'status' });
    this.message.hidden = true;
    const tree = element('div', '');
    this.tree = new FileTree(tree, transport, {
      open: entry => void this.attempt(() => this.open(entry)),
      download: entry => void this.attempt(() => this.download(entry)),
      rename: entry => void this.attempt(() => this.rename(entry)),
      remove: entry => void this.attempt(() => this.remove(entry)),
      select: entry => this.observer.onSelect?.(entry.path)
    });
    this.body = element('div', 'sbx-Files-body', {}, tree);
    this.dialog = new InlineDialog(element('div', ''), before => this.tree.rowOf(before));
    this.transfers = new TransferBar(element('div', ''));
    node.append(this.toolbar(), this.dialog.node, this.transfers.node, this.message, this.body);
    node.addEventListener('dragover', event => {
      event.preventDefault();
      node.classList.add('sbx-mod-drop');
    });
    node.addEventListener('dragleave', () => {
      node.classList.remove('sbx-mod-drop');
    });
    node.addEventListener('drop', event => {
      event.preventDefault();
      node.classList.remove('sbx-mod-drop');
      void this.attempt(() => this.upload(event.dataTransfer?.files ?? null));
    });
    this.go(root);
  }

  /** Reads the shown directories again, which the user or Python asked for. */
  refresh(): void {
    void this.attempt(() => this.tree.refresh(this.root));
  }

  /** Shows another directory. */
  show(path: string): void {
    if (path !== this.root) {
      this.go(path);
    }
  }

  dispose(): void {
    this.stopWatch?.();
    window.clearTimeout(this.timer);
    this.dialog.dispose();
    this.transfers.dispose();
    this.editor?.dispose();
    this.tree.dispose();
    this.node.replaceChildren();
  }

  private toolbar(): HTMLElement {
    const picker = element('input', 'sbx-Files-picker', { type: 'file', multiple: '', 'aria-label': trans.__('Files to upload') });
    picker.hidden = true;
    picker.addEventListener('change', () => {
      void this.attempt(() => this.upload(picker.files)).finally(() => {
        picker.value = '';
      });
    });
    return element(
      'div',
      'sbx-Files-toolbar',
      { role: 'toolbar', 'aria-label': trans.__('Files') },
      this.path,
      iconButton(icons.newFolder, trans.__('New folder'), () => void this.attempt(() => this.makeDir())),
      iconButton(icons.upload, trans.__('Upload files'), () => {
        picker.click();
      }),
      iconButton(icons.refresh, trans.__('Refresh'), () => {
        this.refresh();
      }),
      picker
    );
  }

  private go(path: string): void {
    this.root = path.startsWith('/') ? path : `/${path}`;
    this.path.value = this.root;
    this.observer.onPath?.(this.root);
    this.refresh();
    this.stopWatch?.();
    this.stopWatch = watchLastingly(this.transport, this.root, () => {
      window.clearTimeout(this.timer);
      // Not as the user's attempt: a message about what they did stays.
      this.timer = window.setTimeout(() => void this.tree.refresh(this.root), REDRAW_DELAY);
    });
  }

  private async attempt(work: () => Promise<void>): Promise<void> {
    try {
      await work();
      this.message.hidden = true;
    } catch (reason) {
      if (isAbort(reason)) {
        return;
      }
      this.message.replaceChildren(messageOf(reason));
      if (reason instanceof NotShownError) {
        const button = element('button', 'sbx-Button sbx-mod-plain', { type: 'button' }, trans.__('Download'));
        button.addEventListener('click', () => void this.attempt(() => this.download(reason.entry)));
        this.message.append(button);
      }
      this.message.hidden = false;
    }
  }

  private async open(entry: IEntryInfo): Promise<void> {
    this.wanted = entry.path;
    if (this.editor !== null && !(await this.editor.mayLeave())) {
      return;
    }
    if (sizeOf(entry) > MAX_OPEN) {
      throw new NotShownError(entry, trans.__('%1 is too large to open here: %2.', entry.name, formatBytes(sizeOf(entry))));
    }
    const given = this.editor?.content;
    const bytes = await this.transport.read(entry.path);
    if (this.wanted !== entry.path) {
      // Another file was opened since, perhaps with changes by now.
      return;
    }
    let text: string;
    try {
      text = new TextDecoder('utf-8', { fatal: true }).decode(bytes);
    } catch {
      throw new NotShownError(entry, trans.__('%1 is not text.', entry.name));
    }
    // Ask about text that was typed while the file was read.
    if (this.editor !== null && this.editor.content !== given && !(await this.editor.mayLeave())) {
      return;
    }
    this.editor?.dispose();
    const node = element('div', '');
    this.body.append(node);
    this.editor = new FileEditor(node, entry.path, text, {
      save: content => this.transport.write(entry.path, new TextEncoder().encode(content)),
      close: () => {
        this.editor?.dispose();
        this.editor = null;
      }
    });
  }

  private async download(entry: IEntryInfo): Promise<void> {
    if (isDirectory(entry)) {
      element('a', '', { href: this.transport.archiveUrl?.(entry.path) ?? '', download: '' }).click();
      return;
    }
    const address = this.transport.fileUrl?.(entry.path);
    if (address !== undefined) {
      // The browser shows how far it is, can cancel it, and keeps nothing of it in memory.
      element('a', '', { href: address, download: entry.name }).click();
      return;
    }
    const bytes = await this.transfers.follow(
      () => trans.__('Downloading %1 (%2)', entry.name, formatBytes(sizeOf(entry))),
      ({ signal }) => this.transport.read(entry.path, signal)
    );
    const url = URL.createObjectURL(new Blob([new Uint8Array(bytes)]));
    const anchor = element('a', '', { href: url, download: entry.name });
    anchor.click();
    URL.revokeObjectURL(url);
  }

  private async rename(entry: IEntryInfo): Promise<void> {
    const text = trans.__('New name of %1', entry.name);
    const name = await this.dialog.ask({ text, yes: trans.__('Rename'), value: entry.name });
    const target = joinPath(dirname(entry.path), name ?? '');
    if (name && name !== entry.name && (!(await this.isTaken(target)) || (await this.mayReplace(name)))) {
      await this.transport.move(entry.path, target);
      await this.tree.refresh(this.root);
    }
  }

  /** Whether there is an entry at a path, by the listing of its directory: over a comm there is nothing else to ask. */
  private async isTaken(path: string): Promise<boolean> {
    try {
      return (await this.transport.list(dirname(path))).some(({ name }) => name === basename(path));
    } catch (reason) {
      if (reason instanceof SandboxError && reason.code === 'not_found') {
        return false;
      }
      throw reason;
    }
  }

  private async mayReplace(names: string): Promise<boolean> {
    const text = trans.__('Replace %1?', names);
    return (await this.dialog.ask({ text, yes: trans.__('Replace'), isDanger: true })) !== null;
  }

  private async remove(entry: IEntryInfo): Promise<void> {
    const text = trans.__('Delete %1? This cannot be undone.', entry.path);
    if ((await this.dialog.ask({ text, yes: trans.__('Delete'), isDanger: true })) !== null) {
      await this.transport.remove(entry.path);
      await this.tree.refresh(this.root);
    }
  }

  private async makeDir(): Promise<void> {
    const text = trans.__('Name of the new folder');
    const name = await this.dialog.ask({ text, yes: trans.__('Create'), value: '' });
    if (name) {
      await this.transport.makeDir(joinPath(this.root, name));
      await this.tree.refresh(this.root);
    }
  }

  private async upload(files: FileList | null): Promise<void> {
    const directory = this.root;
    const chosen = [...(files ?? [])];
    const known = new Set((await this.transport.list(directory)).map(({ name }) => name));
    const replaced = chosen.filter(({ name }) => known.has(name)).map(({ name }) => name);
    if (replaced.length > 0 && !(await this.mayReplace(replaced.join(', ')))) {
      return;
    }
    try {
      for (const file of chosen) {
        await this.transfers.follow(
          (done, total) =>
            done === undefined || total === undefined
              ? trans.__('Uploading %1', file.name)
              : trans.__('Uploading %1: %2 of %3', file.name, formatBytes(done), formatBytes(total)),
          options => this.transport.upload(joinPath(directory, file.name), file, options)
        );
      }
    } finally {
      await this.tree.refresh(this.root);
    }
  }

  private readonly dialog: InlineDialog;
  private readonly transfers: TransferBar;
  private readonly path: HTMLInputElement;
  private readonly message: HTMLElement;
  private readonly body: HTMLElement;
  private readonly tree: FileTree;
  private editor: FileEditor | null = null;
  private stopWatch: Dispose | null = null;
  private timer = 0;
  /** The file that was to be opened last. */
  private wanted = '';
}

/** A file that the editor cannot show; it can be downloaded. */
class NotShownError extends Error {
  constructor(
    readonly entry: IEntryInfo,
    message: string
  ) {
    super(message);
  }
}

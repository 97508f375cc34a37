import { messageOf } from '../../protocol/errors';
import type { IEntryInfo } from '../../protocol/runtime';
import { isDirectory, isLink, sizeOf } from '../../protocol/runtime';
import { visible } from '../../protocol/sandboxes';
import { element, icon, iconButton } from '../dom';
import { formatBytes } from '../format';
import * as icons from '../icons';
import { trans } from '../translation';
import type { ISandboxTransport } from '../transport';

/** A longer directory is cut; each time as many more are shown on request. */
const MAX_ROWS = 500;

/** The actions of the tree's buttons and keys on an entry. */
export interface ITreeActions {
  open(entry: IEntryInfo): void;
  download(entry: IEntryInfo): void;
  rename(entry: IEntryInfo): void;
  remove(entry: IEntryInfo): void;
  /** An entry was clicked, or reached by a key. */
  select?(entry: IEntryInfo): void;
}

interface IBranch {
  readonly entry: IEntryInfo;
  readonly row: HTMLElement;
  readonly group: HTMLElement;
}

/** A directory tree that loads a directory when it is opened; arrow keys, Enter and F2 work. */
export class FileTree {
  constructor(
    readonly node: HTMLElement,
    private readonly transport: ISandboxTransport,
    private readonly actions: ITreeActions,
    private readonly maxRows = MAX_ROWS
  ) {
    node.classList.add('sbx-FileTree');
    node.setAttribute('role', 'tree');
    node.setAttribute('aria-label', trans.__('Files of the sandbox'));
    node.addEventListener('keydown', this.onKey);
  }

  /** Reads `root` and every directory that is open below it again. */
  async refresh(root: string): Promise<void> {
    this.root = root;
    const round = ++this.round;
    const rows = await this.branch(root, 1);
    if (round !== this.round) {
      // A later answer may have come first.
      return;
    }
    // The focus moves on while the directories are read.
    const before = document.activeElement as HTMLElement | null;
    const hadFocus = this.node.contains(before);
    this.node.replaceChildren(...rows);
    const row = hadFocus && before !== null ? this.rowOf(before) : this.rows()[0];
    if (row) {
      row.tabIndex = 0;
      if (hadFocus) {
        row.focus();
      }
    }
  }

  /** The current row for the entry of the earlier row `before`, else the first row. */
  rowOf(before: HTMLElement): HTMLElement | null {
    const path = before.closest<HTMLElement>('[role=treeitem]')?.dataset['path'];
    const rows = this.rows();
    return rows.find(row => row.dataset['path'] === path) ?? rows[0] ?? null;
  }

  dispose(): void {
    this.node.removeEventListener('keydown', this.onKey);
    this.node.replaceChildren();
  }

  private async branch(path: string, level: number): Promise<HTMLElement[]> {
    let entries: readonly IEntryInfo[];
    try {
      entries = await this.transport.list(path);
    } catch (reason) {
      return [this.note(messageOf(reason), level, 'sbx-mod-error')];
    }
    if (entries.length === 0) {
      return [this.note(trans.__('Empty'), level, 'sbx-mod-empty')];
    }
    const sorted = [...entries].sort(byKindThenName);
    const limit = this.limits.get(path) ?? this.maxRows;
    const items = await Promise.all(sorted.slice(0, limit).map(entry => this.item(entry, level)));
    if (sorted.length > limit) {
      items.push(this.moreNote(path, level, sorted.length - limit));
    }
    return items;
  }

  /** Says how many entries are not shown, with a button that shows the next ones. */
  private moreNote(path: string, level: number, count: number): HTMLElement {
    const note = this.note(trans.__('%1 more', count), level, 'sbx-mod-empty');
    const button = element('button', 'sbx-Button sbx-mod-plain', { type: 'button' }, trans.__('Show more'));
    button.addEventListener('click', () => {
      this.limits.set(path, (this.limits.get(path) ?? this.maxRows) + this.maxRows);
      void this.refresh(this.root);
    });
    note.append(button);
    return note;
  }

  private note(text: string, level: number, modifier: string): HTMLElement {
    const note = element('div', `sbx-FileTree-note ${modifier}`, {}, text);
    note.style.setProperty('--sbx-level', String(level));
    return note;
  }

  private async item(entry: IEntryInfo, level: number): Promise<HTMLElement> {
    const directory = isDirectory(entry);
    const row = element('div', 'sbx-FileTree-row', { title: entry.path });
    row.style.setProperty('--sbx-level', String(level));
    const twist = element('span', 'sbx-FileTree-twist');
    if (directory) {
      twist.append(icon(icons.chevron));
    }
    const shape = isLink(entry) ? icons.link : directory ? icons.folder : icons.file;
    const name = element('span', 'sbx-FileTree-name', {}, visible(entry.name));
    if (isLink(entry)) {
      name.append(element('span', 'sbx-FileTree-target', {}, ` → ${visible(entry.symlinkTarget ?? '')}`));
    }
    const size = element('span', 'sbx-FileTree-size', {}, directory ? '' : formatBytes(sizeOf(entry)));
    row.append(twist, icon(shape), name, size, this.buttons(entry, directory));
    const group = element('div', 'sbx-FileTree-group', { role: 'group' });
    const item = element('div', 'sbx-FileTree-item', {
      role: 'treeitem',
      'aria-level': String(level),
      'aria-label': entry.name,
      tabindex: '-1'
    });
    item.dataset['path'] = entry.path;
    item.append(row, group);
    this.branches.set(item, { entry, row, group });
    row.addEventListener('click', () => {
      this.focus(item);
      void this.activate(item);
    });
    if (directory) {
      item.setAttribute('aria-expanded', 'false');
      if (this.expanded.has(entry.path)) {
        await this.toggle(item, true);
      }
    }
    return item;
  }

  private buttons(entry: IEntryInfo, directory: boolean): HTMLElement {
    const group = element('span', 'sbx-FileTree-actions');
    if (!directory || this.transport.archiveUrl !== undefined) {
      const label = directory ? trans.__('Download %1 as a zip', entry.name) : trans.__('Download %1', entry.name);
      group.append(
        iconButton(icons.download, label, () => {
          this.actions.download(entry);
        })
      );
    }
    group.append(
      iconButton(icons.rename, trans.__('Rename %1', entry.name), () => {
        this.actions.rename(entry);
      }),
      iconButton(icons.remove, trans.__('Delete %1', entry.name), () => {
        this.actions.remove(entry);
      })
    );
    group.querySelectorAll('button').forEach(button => {
      button.tabIndex = -1;
    });
    return group;
  }

  private async activate(item: HTMLElement): Promise<void> {
    const branch = this.branches.get(item);
    if (!branch) {
      return;
    }
    if (isDirectory(branch.entry)) {
      await this.toggle(item, item.getAttribute('aria-expanded') !== 'true');
    } else {
      this.actions.open(branch.entry);
    }
  }

  private async toggle(item: HTMLElement, open: boolean): Promise<void> {
    const branch = this.branches.get(item);
    if (!branch || !isDirectory(branch.entry)) {
      return;
    }
    const path = branch.entry.path;
    item.setAttribute('aria-expanded', String(open));
    if (open) {
      this.expanded.add(path);
      const level = Number(item.getAttribute('aria-level')) + 1;
      const rows = await this.branch(path, level);
      if (item.getAttribute('aria-expanded') === 'true') {
        branch.group.replaceChildren(...rows);
      }
    } else {
      this.expanded.delete(path);
      branch.group.replaceChildren();
    }
  }

  private rows(): HTMLElement[] {
    return [...this.node.querySelectorAll<HTMLElement>('[role=treeitem]')];
  }

  private focus(item: HTMLElement | undefined): void {
    if (item) {
      this.rows().forEach(row => {
        row.tabIndex = row === item ? 0 : -1;
      });
      item.focus();
      const branch = this.branches.get(item);
      if (branch !== undefined) {
        this.actions.select?.(branch.entry);
      }
    }
  }

  private readonly onKey = (event: KeyboardEvent): void => {
    const item = (event.target as HTMLElement).closest<HTMLElement>('[role=treeitem]');
    const branch = item === null ? undefined : this.branches.get(item);
    if (item === null || branch === undefined || event.target !== item) {
      return;
    }
    const rows = this.rows();
    const at = rows.indexOf(item);
    const moves: Record<string, () => void> = {
      ArrowDown: () => { this.focus(rows[at + 1]); },
      ArrowUp: () => { this.focus(rows[at - 1]); },
      Home: () => { this.focus(rows[0]); },
      End: () => { this.focus(rows.at(-1)); },
      ArrowRight: () => void this.toggle(item, true),
      ArrowLeft: () => {
        if (item.getAttribute('aria-expanded') === 'true') {
          void this.toggle(item, false);
        } else {
          this.focus(item.parentElement?.closest<HTMLElement>('[role=treeitem]') ?? undefined);
        }
      },
      Enter: () => void this.activate(item),
      ' ': () => void this.activate(item),
      F2: () => { this.actions.rename(branch.entry); },
      Delete: () => { this.actions.remove(branch.entry); }
    };
    const move = moves[event.key];
    if (move) {
      event.preventDefault();
      event.stopPropagation();
      move();
    }
  };

  private readonly branches = new WeakMap<HTMLElement, IBranch>();
  private readonly expanded = new Set<string>();
  /** Number of entries shown of each directory for which the user asked for more. */
  private readonly limits = new Map<string, number>();
  private root = '/';
  /** Counts the readings of the whole tree. */
  private round = 0;
}

/** Sorts directories first, then by name with numbers in numeric order. */
function byKindThenName(one: IEntryInfo, other: IEntryInfo): number {
  const kind = Number(isDirectory(other)) - Number(isDirectory(one));
  return kind !== 0 ? kind : one.name.localeCompare(other.name, undefined, { numeric: true });
}

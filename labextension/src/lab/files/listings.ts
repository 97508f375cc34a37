import type { ISignal } from '@lumino/signaling';
import { Signal } from '@lumino/signaling';

import type { IEntryPage } from '../../components/serverTransport';
import type { IEntryInfo } from '../../protocol/runtime';
import { isLink } from '../../protocol/runtime';

/** How many entries of a directory are shown at first, and how many more each time. */
const STEP = 1000;

/** What is shown of one directory. */
export interface IListing {
  readonly shown: number;
  /** How many match the filter. */
  readonly matching: number;
  readonly all: number;
  readonly filter: string;
}

/**
 * Decides how much of each directory is shown.
 *
 * JupyterLab makes an element for each entry and looks at all of them at every change, so a directory
 * with 20,000 entries would stop the page for half a minute.
 */
export class Listings {
  /** Emitted with a path after more, or something else, of that directory is to be shown. */
  get changed(): ISignal<this, string> {
    return this.changedSignal;
  }

  /** What to ask the server for: how many entries, and what their names hold. */
  wanted(path: string): { readonly filter: string; readonly limit: number } {
    return this.wishes.path === path ? this.wishes : { filter: '', limit: STEP };
  }

  /** Remembers what the server gave for `filter`, and returns the entries that are shown. */
  note(path: string, { entries, matching, total }: IEntryPage, filter: string): readonly IEntryInfo[] {
    this.links = new Map(entries.filter(isLink).map(({ name, symlinkTarget }) => [name, symlinkTarget ?? '']));
    this.last = { path, listing: { shown: entries.length, matching, all: total, filter } };
    return entries;
  }

  /** What was shown of a directory, if it is the one that was listed last. */
  get(path: string): IListing | undefined {
    return this.last?.path === path ? this.last.listing : undefined;
  }

  showMore(path: string): void {
    const wanted = this.wanted(path);
    this.wishes = { path, filter: wanted.filter, limit: wanted.limit + STEP };
    this.changedSignal.emit(path);
  }

  filter(path: string, filter: string): void {
    this.wishes = { path, filter, limit: STEP };
    this.changedSignal.emit(path);
  }

  /** The targets of the links that are shown, by their names. */
  links: ReadonlyMap<string, string> = new Map();
  private readonly changedSignal = new Signal<this, string>(this);
  private last: { readonly path: string; readonly listing: IListing } | null = null;
  /** What the user wants to see of the directory that was asked for at last. */
  private wishes = { path: '', filter: '', limit: STEP };
}

import type { ISignal } from '@lumino/signaling';
import { Signal } from '@lumino/signaling';

import type { IEntryPage } from '../../components/serverTransport';
import type { IEntryInfo } from '../../protocol/runtime';
import { isLink } from '../../protocol/runtime';

/** Number of entries of a directory that are shown at first, and that are added each time. */
const STEP = 1000;

/** The counts and the filter of one directory as it is shown. */
export interface IListing {
  readonly shown: number;
  /** Number of entries that match the filter. */
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

  /** The query for the server: the number of entries, and a text that their names contain. */
  wanted(path: string): { readonly filter: string; readonly limit: number } {
    return this.wishes.path === path ? this.wishes : { filter: '', limit: STEP };
  }

  /** Remembers what the server gave for `filter`, and returns the entries that are shown. */
  note(path: string, { entries, matching, total }: IEntryPage, filter: string): readonly IEntryInfo[] {
    this.links = new Map(entries.filter(isLink).map(({ name, symlinkTarget }) => [name, symlinkTarget ?? '']));
    this.last = { path, listing: { shown: entries.length, matching, all: total, filter } };
    return entries;
  }

  /** The listing of a directory, if it is the one that was listed last. */
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
  /** The filter and the number of entries that the user wants for the last requested directory. */
  private wishes = { path: '', filter: '', limit: STEP };
}

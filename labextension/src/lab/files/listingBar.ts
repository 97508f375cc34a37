import type { FileBrowserModel } from '@jupyterlab/filebrowser';
import { Widget } from '@lumino/widgets';

import { element } from '../../components/dom';
import { trans } from '../../components/translation';
import type { Listings } from './listings';

/** Milliseconds after the last key before the directory is filtered. */
const TYPING_DELAY = 250;

/** Says that a directory is not shown whole; filters it and shows more of it. Hidden where all is shown. */
export class ListingBar extends Widget {
  constructor(
    private readonly model: FileBrowserModel,
    private readonly listings: Listings
  ) {
    super();
    this.addClass('sbx-FileBrowser-cut');
    this.text = element('span', '', { role: 'status' });
    this.more = element('button', 'sbx-TextButton', { type: 'button' }, trans.__('Show more'));
    this.more.addEventListener('click', () => {
      listings.showMore(this.path);
    });
    this.input = element('input', '', {
      type: 'search',
      placeholder: trans.__('Filter by name'),
      'aria-label': trans.__('Filter the files of this folder by name')
    });
    this.input.addEventListener('input', () => {
      window.clearTimeout(this.timer);
      this.timer = window.setTimeout(() => {
        listings.filter(this.path, this.input.value.trim());
      }, TYPING_DELAY);
    });
    this.node.append(this.input, this.text, this.more);
    this.hide();
    model.refreshed.connect(this.draw);
    model.pathChanged.connect(this.onPath);
    listings.changed.connect(this.refresh);
  }

  override dispose(): void {
    window.clearTimeout(this.timer);
    this.model.refreshed.disconnect(this.draw);
    this.model.pathChanged.disconnect(this.onPath);
    this.listings.changed.disconnect(this.refresh);
    super.dispose();
  }

  private get path(): string {
    return this.model.manager.services.contents.localPath(this.model.path);
  }

  private readonly onPath = (): void => {
    // Text that was typed for the other directory must not filter this one.
    window.clearTimeout(this.timer);
    this.input.value = this.listings.wanted(this.path).filter;
    this.draw();
  };

  private readonly refresh = (): void => {
    void this.model.refresh();
  };

  private readonly draw = (): void => {
    const listing = this.listings.get(this.path);
    const isCut = listing !== undefined && (listing.shown < listing.all || listing.filter !== '');
    this.setHidden(!isCut);
    if (!isCut) {
      return;
    }
    const { shown, matching, all, filter } = listing;
    const count = (value: number) => value.toLocaleString();
    this.text.textContent =
      filter === ''
        ? trans.__('%1 of %2', count(shown), count(all))
        : trans.__('%1 of %2 that match, of %3', count(shown), count(matching), count(all));
    this.more.hidden = shown === matching;
  };

  private readonly text: HTMLElement;
  private readonly more: HTMLButtonElement;
  private readonly input: HTMLInputElement;
  private timer = 0;
}

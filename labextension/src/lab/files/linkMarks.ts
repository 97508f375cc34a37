import type { FileBrowser } from '@jupyterlab/filebrowser';
import type { Message } from '@lumino/messaging';
import { MessageLoop } from '@lumino/messaging';
import type { Widget } from '@lumino/widgets';

import { trans } from '../../components/translation';
import { visible } from '../../protocol/sandboxes';
import type { Listings } from './listings';

/** Marks links in a browser of JupyterLab, which shows them as what they lead to. */
export function markLinks(browser: FileBrowser, listings: Listings): void {
  const listing = listingIn(browser);
  if (listing === undefined) {
    return;
  }
  MessageLoop.installMessageHook(listing, (_, message: Message) => {
    if (message.type === 'update-request') {
      // After the browser has drawn the rows, which it uses again for other files.
      queueMicrotask(() => {
        mark(listing, listings);
      });
    }
    return true;
  });
}

/** The list in a browser, which has it in a panel of its own. */
export function listingIn(widget: Widget): Widget | undefined {
  if (widget.hasClass('jp-DirListing')) {
    return widget;
  }
  for (const child of widget.layout ?? []) {
    const found = listingIn(child);
    if (found !== undefined) {
      return found;
    }
  }
  return undefined;
}

function mark(listing: Widget, { links }: Listings): void {
  for (const row of listing.node.querySelectorAll<HTMLElement>('.jp-DirListing-item')) {
    const name = row.querySelector('.jp-DirListing-itemText')?.textContent ?? '';
    const target = links.get(name);
    if (target === undefined) {
      delete row.dataset['sbxTarget'];
    } else if (row.dataset['sbxTarget'] !== visible(target)) {
      row.dataset['sbxTarget'] = visible(target);
      row.title = `${row.title}\n${trans.__('Link to: %1', visible(target))}`;
    }
  }
}

import { Dialog, showDialog } from '@jupyterlab/apputils';
import { Widget } from '@lumino/widgets';

import { element, iconButton } from '../../components/dom';
import * as icons from '../../components/icons';
import { trans } from '../../components/translation';
import type { IIsolation, IMissing, IServerInfo } from '../../protocol/sandboxes';
import { pageNamed, readMore } from '../help/readMore';
import { copyableCommand } from './commandLine';
import { idsText, limitLines, networkText, servedByText, tierText, usersText, worthText } from './isolationText';

/**
 * Shows the isolation of sandboxes: the tier, the limits, what is missing and how to add it.
 * `close` is called before a page of the documentation is opened.
 */
export function isolationDetails(info: IServerInfo | null, close: () => void = () => undefined): HTMLElement {
  const node = element('div', 'sbx-Isolation');
  const isolation = info?.isolation ?? null;
  if (isolation === null) {
    const text = info?.engine.message ?? trans.__('The deployment does not say how it isolates sandboxes.');
    node.append(element('p', '', {}, text));
    return node;
  }
  const tier = tierText(isolation.tier);
  node.append(element('p', '', {}, tier.meaning));
  if (isolation.best_tier !== undefined && isolation.best_tier !== isolation.tier) {
    const best = trans.__('This machine supports “%1”; the engine’s settings ask for less.', isolation.best_tier);
    node.append(element('p', 'sbx-Isolation-warning', {}, best));
  }
  node.append(
    element(
      'dl',
      'sbx-Isolation-facts',
      {},
      element('dt', '', {}, trans.__('Tier')),
      element('dd', '', {}, isolation.tier),
      element('dt', '', {}, trans.__('Users')),
      element('dd', '', {}, usersText(isolation.users)),
      element('dt', '', {}, trans.__('Host ids')),
      element('dd', '', {}, idsText(isolation.ids)),
      element('dt', '', {}, trans.__('Clients served by')),
      element('dd', '', {}, servedByText(isolation.served_by)),
      element('dt', '', {}, trans.__('Network')),
      element('dd', '', {}, networkText(isolation.network))
    ),
    limitTable(isolation),
    ...(isolation.missing ?? []).map(each => missing(each, close))
  );
  return node;
}

function limitTable(isolation: IIsolation): HTMLElement {
  const head = [trans.__('Limit'), trans.__('Each'), trans.__('Is'), trans.__('By')];
  const rows = limitLines(isolation).map(({ resource, what, amount, worth, holder }) =>
    element(
      'tr',
      { limited: '', watched: 'sbx-mod-watched', 'not limited': 'sbx-mod-open' }[worth],
      { 'data-limit': resource },
      element('th', '', { scope: 'row' }, what),
      element('td', '', {}, amount),
      element('td', '', {}, worthText(worth)),
      element('td', '', {}, holder === 'none' ? '' : holder)
    )
  );
  const titles = head.map(title => element('th', '', { scope: 'col' }, title));
  return element(
    'table',
    'sbx-Isolation-limits',
    {},
    element('thead', '', {}, element('tr', '', {}, ...titles)),
    element('tbody', '', {}, ...rows)
  );
}

function missing({ what, remedy, page }: IMissing, close: () => void): HTMLElement {
  const named = pageNamed(page);
  return element(
    'div',
    'sbx-Isolation-missing',
    {},
    element('h3', '', {}, trans.__('Missing')),
    element('p', '', {}, what),
    copyableCommand(remedy),
    ...(named === undefined ? [] : [element('p', 'sbx-Isolation-more', {}, readMore(named, close))])
  );
}

/** A popover with the isolation; Escape, Tab out of it, a click elsewhere or its button closes it. */
export class IsolationPopover extends Widget {
  constructor(
    info: IServerInfo | null,
    private readonly anchor: HTMLElement
  ) {
    super();
    this.addClass('sbx-Popover');
    this.node.setAttribute('role', 'dialog');
    const title = element('h2', '', { id: 'sbx-popover-title' }, trans.__('Isolation'));
    this.node.setAttribute('aria-labelledby', title.id);
    this.closeButton = iconButton(icons.close, trans.__('Close'), () => {
      this.dispose();
    });
    this.node.append(
      element('div', 'sbx-Popover-header', {}, title, this.closeButton),
      isolationDetails(info, () => {
        this.dispose();
      })
    );
  }

  /** Shows it below its anchor, inside the page. */
  open(): void {
    Widget.attach(this, document.body);
    const { left, bottom } = this.anchor.getBoundingClientRect();
    const { width } = this.node.getBoundingClientRect();
    this.node.style.left = `${Math.max(8, Math.min(left, window.innerWidth - width - 8))}px`;
    this.node.style.top = `${bottom + 4}px`;
    this.node.style.maxHeight = `${Math.max(120, window.innerHeight - bottom - 16)}px`;
    this.anchor.setAttribute('aria-expanded', 'true');
    document.addEventListener('pointerdown', this.onPointer, true);
    this.node.addEventListener('keydown', this.onKey);
    this.node.addEventListener('focusout', this.onFocusOut);
    this.closeButton.focus();
  }

  override dispose(): void {
    if (this.isDisposed) {
      return;
    }
    document.removeEventListener('pointerdown', this.onPointer, true);
    const hadFocus = this.node.contains(document.activeElement);
    this.node.removeEventListener('focusout', this.onFocusOut);
    this.anchor.setAttribute('aria-expanded', 'false');
    super.dispose();
    if (hadFocus) {
      this.anchor.focus();
    }
  }

  private readonly onPointer = (event: Event): void => {
    const target = event.target as Node;
    if (!this.node.contains(target) && !this.anchor.contains(target)) {
      this.dispose();
    }
  };

  private readonly onKey = (event: KeyboardEvent): void => {
    event.stopPropagation();
    this.tabbed = event.key === 'Tab';
    if (event.key === 'Escape') {
      this.dispose();
    }
  };

  private readonly onFocusOut = (event: FocusEvent): void => {
    const next = event.relatedTarget as Node | null;
    // JupyterLab moves the focus by itself, for example when it has restored its tabs.
    if (this.tabbed && next !== null && !this.node.contains(next)) {
      this.dispose();
    }
  };

  private readonly closeButton: HTMLButtonElement;
  private tabbed = false;
}

/** Shows how sandboxes are isolated on this machine. */
export async function showIsolation(info: IServerInfo | null): Promise<void> {
  const body = new Widget({ node: isolationDetails(info, () => { Dialog.flush(); }) });
  await showDialog({
    title: trans.__('Isolation'),
    body,
    buttons: [Dialog.okButton({ label: trans.__('Close') })]
  });
}

import type { FileBrowser } from '@jupyterlab/filebrowser';
import { newFolderIcon, refreshIcon, ToolbarButton } from '@jupyterlab/ui-components';
import type { CommandRegistry } from '@lumino/commands';
import type { Message } from '@lumino/messaging';
import { MessageLoop } from '@lumino/messaging';
import { PanelLayout, Widget } from '@lumino/widgets';

import { element } from '../../components/dom';
import { trans } from '../../components/translation';
import type { ISandbox } from '../../protocol/sandboxes';
import { displayName } from '../../protocol/sandboxes';
import { CommandIDs } from '../commandIds';
import { filesIcon } from '../icons';
import type { Sandboxes } from '../sandboxes';
import { ListingBar } from './listingBar';
import type { Listings } from './listings';
import { listingIn, markLinks } from './linkMarks';
import { uploadButton } from './uploads';

/** JupyterLab's file browser for one sandbox at a time: its name, its buttons, and a notice once it has ended. */
export class FilesPanel {
  constructor(
    readonly browser: FileBrowser,
    private readonly sandboxes: Sandboxes,
    private readonly commands: CommandRegistry,
    listings: Listings
  ) {
    browser.title.icon = filesIcon;
    browser.addClass('sbx-FileBrowser');
    this.addToolbar();
    this.notice.addClass('sbx-FileBrowser-ended');
    this.notice.hide();
    // Below the toolbar.
    (browser.layout as PanelLayout).insertWidget(1, this.notice);
    this.addListingBar(listings);
    markLinks(browser, listings);
    sandboxes.changed.connect(this.onSandboxes);
    const followWhenVisible = (_: unknown, message: Message): boolean => {
      if (message.type === 'after-show' || message.type === 'before-hide') {
        this.follow(message.type === 'after-show');
      }
      return true;
    };
    MessageLoop.installMessageHook(browser, followWhenVisible);
    browser.disposed.connect(() => {
      this.follow(false);
      sandboxes.changed.disconnect(this.onSandboxes);
    });
  }

  /** Names the sandbox whose files are shown from now on. */
  show(sandbox: ISandbox): void {
    this.sandbox = sandbox;
    const name = displayName(sandbox);
    this.browser.title.caption = trans.__('Files of sandbox %1', name);
    this.name.node.textContent = name;
    this.name.node.title = this.browser.title.caption;
    this.onSandboxes();
  }

  private addToolbar(): void {
    const { model, toolbar } = this.browser;
    this.name.addClass('sbx-FileBrowser-name');
    toolbar.addItem('name', this.name);
    toolbar.addItem(
      'new-folder',
      new ToolbarButton({
        icon: newFolderIcon,
        tooltip: trans.__('New folder'),
        onClick: () => void this.browser.createNewDirectory()
      })
    );
    toolbar.addItem('upload', uploadButton(model));
    toolbar.addItem(
      'refresh',
      new ToolbarButton({ icon: refreshIcon, tooltip: trans.__('Refresh'), onClick: () => void model.refresh() })
    );
  }

  /** Between the path and the list, which are in a panel of their own. */
  private addListingBar(listings: Listings): void {
    const listing = listingIn(this.browser);
    const layout = listing?.parent?.layout;
    if (listing !== undefined && layout instanceof PanelLayout) {
      layout.insertWidget(layout.widgets.indexOf(listing), new ListingBar(this.browser.model, listings));
    }
  }

  /** Learns of the end of the sandbox while the panel is visible. */
  private follow(isVisible: boolean): void {
    this.unfollow?.();
    this.unfollow = isVisible ? this.sandboxes.watch() : null;
  }

  private readonly onSandboxes = (): void => {
    const { sandbox } = this;
    const { items, error } = this.sandboxes;
    if (sandbox === null || items === null || error !== null) {
      return;
    }
    const hasEnded = items.every(({ sandboxID }) => sandboxID !== sandbox.sandboxID);
    this.browser.toggleClass('sbx-mod-ended', hasEnded);
    this.notice.setHidden(!hasEnded);
    if (hasEnded && this.notice.node.dataset['sandbox'] !== sandbox.sandboxID) {
      this.notice.node.dataset['sandbox'] = sandbox.sandboxID;
      this.fillNotice(sandbox);
    }
  };

  private fillNotice(sandbox: ISandbox): void {
    const button = (label: string, onClick: () => void) => {
      const node = element('button', 'sbx-TextButton', { type: 'button' }, label);
      node.addEventListener('click', onClick);
      return node;
    };
    this.notice.node.setAttribute('role', 'status');
    this.notice.node.replaceChildren(
      element('p', '', {}, trans.__('%1 has ended; its files are gone.', displayName(sandbox))),
      button(trans.__('New sandbox'), () => void this.replace()),
      button(trans.__('Close'), () => {
        this.browser.dispose();
      })
    );
  }

  private async replace(): Promise<void> {
    const made: unknown = await this.commands.execute(CommandIDs.create);
    if (typeof made === 'string') {
      await this.commands.execute(CommandIDs.browseFiles, { sandbox: made });
    }
  }

  private readonly name = new Widget({ node: document.createElement('h2') });
  private readonly notice = new Widget();
  private sandbox: ISandbox | null = null;
  private unfollow: (() => void) | null = null;
}

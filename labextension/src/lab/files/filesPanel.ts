import type { FileBrowser } from '@jupyterlab/filebrowser';
import { newFolderIcon, refreshIcon, ToolbarButton } from '@jupyterlab/ui-components';
import type { CommandRegistry } from '@lumino/commands';
import type { Message } from '@lumino/messaging';
import { MessageLoop } from '@lumino/messaging';
import { PanelLayout, Widget } from '@lumino/widgets';

import { element } from '../../components/dom';
import { trans } from '../../components/translation';
import { messageOf, SandboxError } from '../../protocol/errors';
import { displayName } from '../../protocol/sandboxes';
import { CommandIDs } from '../commandIds';
import { filesIcon } from '../icons';
import { notifyError } from '../notifications';
import type { Sandboxes } from '../sandboxes';
import { splitPath } from './driveModel';
import { ListingBar } from './listingBar';
import type { IListing, Listings } from './listings';
import { listingIn, markLinks } from './linkMarks';
import { uploadButton } from './uploads';

/**
 * JupyterLab's file browser for one sandbox at a time: its name, its buttons, and a notice once it has ended.
 *
 * The sandbox is taken from the path that is shown, not from the one that was asked for: the user may open
 * another from the root, and a folder that was asked for may not be readable.
 */
export class FilesPanel {
  constructor(
    readonly browser: FileBrowser,
    private readonly sandboxes: Sandboxes,
    private readonly commands: CommandRegistry,
    private readonly listings: Listings
  ) {
    browser.title.icon = filesIcon;
    browser.addClass('sbx-FileBrowser');
    this.addToolbar();
    this.notice.addClass('sbx-FileBrowser-ended');
    this.notice.hide();
    // Below the toolbar.
    (browser.layout as PanelLayout).insertWidget(1, this.notice);
    this.addListingBar();
    markLinks(browser, listings);
    sandboxes.changed.connect(this.onSandboxes);
    browser.model.pathChanged.connect(this.onPath);
    browser.model.connectionFailure.connect(this.onFailure);
    browser.model.refreshed.connect(this.onRefreshed);
    this.show('');
    this.onPath();
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
  private addListingBar(): void {
    const listing = listingIn(this.browser);
    const layout = listing?.parent?.layout;
    if (listing !== undefined && layout instanceof PanelLayout) {
      layout.insertWidget(layout.widgets.indexOf(listing), new ListingBar(this.browser.model, this.listings));
    }
  }

  /** Learns of the end of the sandbox while the panel is visible. */
  private follow(isVisible: boolean): void {
    this.unfollow?.();
    this.unfollow = isVisible ? this.sandboxes.watch() : null;
  }

  private get path(): string {
    const { model } = this.browser;
    return model.manager.services.contents.localPath(model.path);
  }

  private readonly onPath = (): void => {
    const { sandboxId } = splitPath(this.path);
    this.reported = '';
    if (sandboxId !== this.sandboxId) {
      this.sandboxId = sandboxId;
      this.show(sandboxId);
      this.notice.hide();
      this.browser.removeClass('sbx-mod-ended');
    }
    this.onSandboxes();
  };

  private show(name: string): void {
    this.shownName = name;
    const isRoot = this.sandboxId === '';
    this.browser.title.caption = isRoot ? trans.__('Files of sandboxes') : trans.__('Files of sandbox %1', name);
    this.name.node.textContent = isRoot ? trans.__('All sandboxes') : name;
    this.name.node.title = this.browser.title.caption;
  }

  private readonly onSandboxes = (): void => {
    const sandbox = this.sandboxes.find(this.sandboxId);
    if (sandbox !== undefined) {
      this.show(displayName(sandbox));
    }
    if (this.sandboxes.items === null || this.sandboxes.error !== null) {
      return;
    }
    const hasEnded = sandbox === undefined && this.sandboxId !== '';
    this.browser.toggleClass('sbx-mod-ended', hasEnded);
    this.notice.setHidden(!hasEnded);
    if (hasEnded && this.notice.node.dataset['sandbox'] !== this.sandboxId) {
      this.notice.node.dataset['sandbox'] = this.sandboxId;
      this.fillNotice(this.shownName);
    }
  };

  /** The model swallows why a folder could not be listed, and asks for it every 10 seconds. */
  private readonly onFailure = (_: unknown, reason: Error): void => {
    this.listed = this.listings.get(this.path);
    const text = messageOf(reason);
    if (text !== this.reported) {
      this.reported = text;
      void this.report(reason);
    }
  };

  private async report(reason: Error): Promise<void> {
    await this.sandboxes.refresh();
    const isEndShown = !this.notice.isHidden && reason instanceof SandboxError && reason.code === 'not_found';
    if (!this.browser.isDisposed && !isEndShown) {
      notifyError(trans.__('The files could not be listed. %1', messageOf(reason)));
    }
  }

  /** The model also says that it is refreshed right after a failure, when there is no new listing. */
  private readonly onRefreshed = (): void => {
    if (this.listings.get(this.path) !== this.listed) {
      this.reported = '';
    }
  };

  private fillNotice(name: string): void {
    const button = (label: string, onClick: () => void) => {
      const node = element('button', 'sbx-TextButton', { type: 'button' }, label);
      node.addEventListener('click', onClick);
      return node;
    };
    this.notice.node.setAttribute('role', 'status');
    this.notice.node.replaceChildren(
      element('p', '', {}, trans.__('%1 has ended; its files are gone.', name)),
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
  /** The sandbox whose files are shown; `''` for the list of all. */
  private sandboxId = '';
  private shownName = '';
  /** The failure that the user was told of, until there is a listing again. */
  private reported = '';
  /** The last listing before that failure. */
  private listed: IListing | undefined;
  private unfollow: (() => void) | null = null;
}

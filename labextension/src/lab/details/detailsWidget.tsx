import { ReactWidget } from '@jupyterlab/apputils';
import type { CommandRegistry } from '@lumino/commands';
import type { Message } from '@lumino/messaging';
import type { ISignal } from '@lumino/signaling';
import { Signal } from '@lumino/signaling';
import * as React from 'react';

import { trans } from '../../components/translation';
import { detailsIcon } from '../icons';
import type { Sandboxes } from '../sandboxes';
import { Loading } from '../states';
import type { Section, TakeHome } from './sections';

// Loaded when the first one is opened.
const DetailsView = React.lazy(async () => ({ default: (await import('./detailsView')).DetailsView }));

/** The log, processes, ports and changes of one sandbox; reads them only while they can be seen. */
export class DetailsWidget extends ReactWidget {
  constructor(
    readonly sandboxId: string,
    private readonly name: string,
    private readonly sandboxes: Sandboxes,
    private readonly commands: CommandRegistry,
    private readonly takeHome: TakeHome,
    private chosen: Section,
    private folder = ''
  ) {
    super();
    this.id = `sbx-details-${sandboxId}`;
    this.addClass('sbx-Details');
    this.title.label = trans.__('Details: %1', name);
    this.title.caption = trans.__('Details of sandbox %1', name);
    this.title.icon = detailsIcon;
    this.title.closable = true;
  }

  /** Emitted when another section is shown. */
  get sectionChanged(): ISignal<this, void> {
    return this.sectionSignal;
  }

  get section(): Section {
    return this.chosen;
  }

  readonly showSection = (section: Section): void => {
    if (section !== this.chosen) {
      this.chosen = section;
      this.sectionSignal.emit();
      this.update();
    }
  };

  /** Limits the changes to those in a directory; to all with an empty path. */
  readonly setFolder = (folder: string): void => {
    this.folder = folder;
    this.update();
  };

  override dispose(): void {
    this.stopWatching?.();
    super.dispose();
  }

  protected override onAfterShow(message: Message): void {
    super.onAfterShow(message);
    this.stopWatching ??= this.sandboxes.watch();
    this.update();
  }

  protected override onAfterHide(message: Message): void {
    super.onAfterHide(message);
    this.stopWatching?.();
    this.stopWatching = null;
    this.update();
  }

  protected override onActivateRequest(): void {
    this.node.querySelector<HTMLElement>('[role=tab][aria-selected=true]')?.focus();
  }

  protected override render(): React.JSX.Element {
    return (
      <React.Suspense fallback={<Loading label={trans.__('Loading the details')} />}>
        <DetailsView
          api={this.sandboxes.api}
          sandboxes={this.sandboxes}
          commands={this.commands}
          sandboxId={this.sandboxId}
          name={this.name}
          takeHome={this.takeHome}
          isActive={this.isVisible}
          section={this.chosen}
          setSection={this.showSection}
          folder={this.folder}
          setFolder={this.setFolder}
        />
      </React.Suspense>
    );
  }

  private stopWatching: (() => void) | null = null;
  private readonly sectionSignal = new Signal<this, void>(this);
}

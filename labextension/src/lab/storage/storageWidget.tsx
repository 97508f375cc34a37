import { ReactWidget } from '@jupyterlab/apputils';
import type { CommandRegistry } from '@lumino/commands';
import type { Message } from '@lumino/messaging';
import type { ISignal } from '@lumino/signaling';
import { Signal } from '@lumino/signaling';
import * as React from 'react';

import { trans } from '../../components/translation';
import { storageIcon } from '../icons';
import type { Sandboxes } from '../sandboxes';
import { Loading } from '../states';
import type { Store } from './sections';

// Loaded when it is opened.
const StorageView = React.lazy(async () => ({ default: (await import('./storageView')).StorageView }));

/** Snapshots, templates, volumes and secrets; asks for them only while it can be seen. */
export class StorageWidget extends ReactWidget {
  constructor(
    private readonly sandboxes: Sandboxes,
    private readonly commands: CommandRegistry,
    private chosen: Store
  ) {
    super();
    this.id = 'sbx-storage';
    this.addClass('sbx-Storage');
    this.title.label = trans.__('Sandbox storage');
    this.title.caption = trans.__('Snapshots, templates, volumes and secrets');
    this.title.icon = storageIcon;
    this.title.closable = true;
  }

  /** Emitted when another kind is shown. */
  get storeChanged(): ISignal<this, void> {
    return this.storeSignal;
  }

  get store(): Store {
    return this.chosen;
  }

  readonly showStore = (store: Store): void => {
    if (store !== this.chosen) {
      this.chosen = store;
      this.storeSignal.emit();
      this.update();
    }
  };

  protected override onAfterShow(message: Message): void {
    super.onAfterShow(message);
    this.update();
  }

  protected override onAfterHide(message: Message): void {
    super.onAfterHide(message);
    this.update();
  }

  protected override onActivateRequest(): void {
    this.node.querySelector<HTMLElement>('[role=tab][aria-selected=true]')?.focus();
  }

  protected override render(): React.JSX.Element {
    return (
      <React.Suspense fallback={<Loading label={trans.__('Loading the storage')} />}>
        <StorageView
          sandboxes={this.sandboxes}
          commands={this.commands}
          isActive={this.isVisible}
          store={this.chosen}
          setStore={this.showStore}
        />
      </React.Suspense>
    );
  }

  private readonly storeSignal = new Signal<this, void>(this);
}

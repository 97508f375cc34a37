import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { ILayoutRestorer } from '@jupyterlab/application';
import { ICommandPalette, MainAreaWidget, WidgetTracker } from '@jupyterlab/apputils';

import { trans } from '../../components/translation';
import { addTab } from '../addTab';
import { CommandIDs } from '../commandIds';
import { storageIcon } from '../icons';
import { describedBy } from '../panel/commands';
import type { Sandboxes } from '../sandboxes';
import { ISandboxes } from '../tokens';
import { storeLabel, storeOf, STORES } from './sections';
import { StorageWidget } from './storageWidget';

/** A tab for things that outlive sandboxes: snapshots, templates, volumes and secrets. */
export const storagePlugin: JupyterFrontEndPlugin<void> = {
  id: 'sbx-jupyter:storage',
  description: 'Snapshots, templates, volumes and secrets.',
  autoStart: true,
  requires: [ISandboxes],
  optional: [ILayoutRestorer, ICommandPalette],
  activate: (app: JupyterFrontEnd, sandboxes: Sandboxes, restorer: ILayoutRestorer | null, palette: ICommandPalette | null) => {
    const tracker = new WidgetTracker<MainAreaWidget<StorageWidget>>({ namespace: 'sbx-storage' });
    app.commands.addCommand(CommandIDs.openStorage, {
      label: args => (args['store'] === undefined ? trans.__('Show Snapshots, Templates, Volumes and Secrets') : trans.__('Show %1', storeLabel(storeOf(args['store'])))),
      caption: trans.__('Show what outlives sandboxes'),
      icon: storageIcon,
      describedBy: describedBy({ store: { type: 'string', enum: [...STORES], description: 'What to show first.' } }),
      execute: async args => {
        const known = tracker.currentWidget;
        if (known !== null) {
          if (args['store'] !== undefined) {
            known.content.showStore(storeOf(args['store']));
          }
          app.shell.activateById(known.id);
          return known;
        }
        const content = new StorageWidget(sandboxes, app.commands, storeOf(args['store']));
        const widget = new MainAreaWidget({ content });
        widget.toolbar.hide();
        widget.id = 'sbx-storage-area';
        content.storeChanged.connect(() => void tracker.save(widget));
        addTab(app, widget, { type: trans.__('Sandbox storage') });
        await tracker.add(widget);
        app.shell.activateById(widget.id);
        return widget;
      }
    });
    for (const store of STORES) {
      palette?.addItem({ command: CommandIDs.openStorage, args: { store }, category: trans.__('Sandboxes') });
    }
    void restorer?.restore(tracker, {
      command: CommandIDs.openStorage,
      args: ({ content }) => ({ store: content.store }),
      name: () => 'storage',
      when: app.serviceManager.ready
    });
  }
};

import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { ILayoutRestorer } from '@jupyterlab/application';
import { ICommandPalette, MainAreaWidget, WidgetTracker } from '@jupyterlab/apputils';
import { IDefaultFileBrowser } from '@jupyterlab/filebrowser';

import { trans } from '../../components/translation';
import { displayName } from '../../protocol/sandboxes';
import { addTab } from '../addTab';
import { CommandIDs } from '../commandIds';
import { globalPath } from '../copies/addresses';
import { askInDialog } from '../copies/conflictDialog';
import { Copies } from '../copies/copies';
import { detailsIcon } from '../icons';
import type { SandboxCommands } from '../panel/commands';
import { describedBy, labelled, sandboxArg, stringOf } from '../panel/commands';
import type { Sandboxes } from '../sandboxes';
import { ISandboxCommands, ISandboxes } from '../tokens';
import { DetailsWidget } from './detailsWidget';
import { addPortPages } from './portPage';
import type { Section, TakeHome } from './sections';
import { SECTIONS, sectionOf } from './sections';

type Shown = MainAreaWidget<DetailsWidget>;

/** A tab with the logs, processes, ports and changes of a sandbox. */
export const detailsPlugin: JupyterFrontEndPlugin<void> = {
  id: 'sbx-jupyter:details',
  description: 'The log, processes, ports and changes of sandboxes.',
  autoStart: true,
  requires: [ISandboxes, ISandboxCommands],
  optional: [ILayoutRestorer, ICommandPalette, IDefaultFileBrowser],
  activate: (
    app: JupyterFrontEnd,
    sandboxes: Sandboxes,
    commands: SandboxCommands,
    restorer: ILayoutRestorer | null,
    palette: ICommandPalette | null,
    browser: IDefaultFileBrowser | null
  ) => {
    const { contents, serverSettings } = app.serviceManager;
    // JupyterLab's browsers list again by themselves what is saved through its contents.
    const copies = new Copies(contents, serverSettings, sandboxes, askInDialog, () => undefined);
    const takeHome: TakeHome = (sandboxId, path) =>
      copies.copyInto([globalPath(sandboxId, path)], contents.localPath(browser?.model.path ?? ''));
    const tracker = new WidgetTracker<Shown>({ namespace: 'sbx-details' });
    app.commands.addCommand(CommandIDs.openDetails, {
      label: args => (args['section'] === undefined ? labelled(trans.__('Show Details'), trans.__('Show Sandbox Details'))(args) : commandLabel(sectionOf(args['section']))),
      caption: trans.__('Show the log, processes, ports and changes of a sandbox'),
      icon: detailsIcon,
      describedBy: describedBy({
        sandbox: sandboxArg,
        section: { type: 'string', enum: [...SECTIONS], description: 'What to show first.' },
        folder: { type: 'string', description: 'An absolute path: only the changes in this directory are listed.' }
      }),
      execute: async args => {
        const sandbox = await commands.target(args);
        if (sandbox === null) {
          return null;
        }
        const folder = stringOf(args['folder']);
        const known = tracker.find(widget => widget.content.sandboxId === sandbox.sandboxID);
        if (known !== undefined) {
          if (args['section'] !== undefined) {
            known.content.showSection(sectionOf(args['section']));
          }
          if (folder !== undefined) {
            known.content.setFolder(folder);
          }
          app.shell.activateById(known.id);
          return known;
        }
        const content = new DetailsWidget(
          sandbox.sandboxID,
          displayName(sandbox),
          sandboxes,
          app.commands,
          takeHome,
          sectionOf(args['section']),
          folder
        );
        const widget = new MainAreaWidget({ content });
        widget.toolbar.hide();
        widget.id = `sbx-details-area-${sandbox.sandboxID}`;
        content.sectionChanged.connect(() => void tracker.save(widget));
        addTab(app, widget, { type: trans.__('Sandbox details') });
        await tracker.add(widget);
        app.shell.activateById(widget.id);
        return widget;
      }
    });
    addPortPages(app, sandboxes, commands, restorer);
    for (const section of SECTIONS) {
      palette?.addItem({ command: CommandIDs.openDetails, args: { section }, category: trans.__('Sandboxes') });
    }
    void restorer?.restore(tracker, {
      command: CommandIDs.openDetails,
      args: ({ content }) => ({ sandbox: content.sandboxId, section: content.section, restored: true }),
      name: ({ content }) => content.sandboxId,
      when: app.serviceManager.ready
    });
  }
};

/** The name of the command that shows a section. */
function commandLabel(section: Section): string {
  const labels: Record<Section, () => string> = {
    logs: () => trans.__('Show Sandbox Log'),
    processes: () => trans.__('Show Sandbox Processes'),
    ports: () => trans.__('Show Sandbox Ports'),
    changes: () => trans.__('Show What a Sandbox Changed')
  };
  return labels[section]();
}

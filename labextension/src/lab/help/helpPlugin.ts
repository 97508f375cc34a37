import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { ILayoutRestorer } from '@jupyterlab/application';
import { MainAreaWidget, WidgetTracker } from '@jupyterlab/apputils';
import { IMainMenu } from '@jupyterlab/mainmenu';
import { IRenderMimeRegistry } from '@jupyterlab/rendermime';

import { trans } from '../../components/translation';
import { addTab } from '../addTab';
import { CommandIDs } from '../commandIds';
import { sandboxIcon } from '../icons';
import { describedBy } from '../panel/commands';
import type { Sandboxes } from '../sandboxes';
import { ISandboxes } from '../tokens';
import type { HelpWidget } from './helpWidget';
import { setHelp } from './readMore';

const IN_HELP_MENU = 20;

/** The documentation in a tab, from the Jupyter server, so that it needs no network. */
export const helpPlugin: JupyterFrontEndPlugin<void> = {
  id: 'sbx-jupyter:help',
  description: 'Shows the documentation of sandboxes.',
  autoStart: true,
  requires: [ISandboxes, IRenderMimeRegistry],
  optional: [ILayoutRestorer, IMainMenu],
  activate: (
    app: JupyterFrontEnd,
    sandboxes: Sandboxes,
    rendermime: IRenderMimeRegistry,
    restorer: ILayoutRestorer | null,
    menu: IMainMenu | null
  ) => {
    const tracker = new WidgetTracker<MainAreaWidget<HelpWidget>>({ namespace: 'sbx-help' });
    app.commands.addCommand(CommandIDs.openHelp, {
      label: trans.__('Sandboxes: Help'),
      caption: trans.__('Show the documentation of sandboxes'),
      icon: sandboxIcon,
      describedBy: describedBy({ page: { type: 'string', description: 'The name of the page; the first one if it is missing.' } }),
      execute: async args => {
        const { FIRST_PAGE, HelpWidget } = await import('./helpWidget');
        const page = typeof args['page'] === 'string' ? args['page'] : FIRST_PAGE;
        const known = tracker.currentWidget;
        if (known !== null) {
          app.shell.activateById(known.id);
          await known.content.showPage(page);
          return known;
        }
        const content = new HelpWidget(sandboxes.api, rendermime, page);
        content.title.icon = sandboxIcon;
        const widget = new MainAreaWidget({ content, reveal: content.start() });
        widget.toolbar.hide();
        widget.id = 'sbx-help-area';
        content.changed.connect(() => void tracker.save(widget));
        addTab(app, widget, { type: trans.__('Sandbox help') });
        await tracker.add(widget);
        app.shell.activateById(widget.id);
        return widget;
      }
    });
    setHelp(page => void app.commands.execute(CommandIDs.openHelp, { page }));
    menu?.helpMenu.addGroup([{ command: CommandIDs.openHelp }], IN_HELP_MENU);
    void restorer?.restore(tracker, {
      command: CommandIDs.openHelp,
      args: ({ content }) => ({ page: content.page }),
      name: () => 'help',
      when: app.serviceManager.ready
    });
  }
};

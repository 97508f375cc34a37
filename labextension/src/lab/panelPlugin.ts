import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { ILayoutRestorer } from '@jupyterlab/application';
import { ICommandPalette } from '@jupyterlab/apputils';
import { ISettingRegistry } from '@jupyterlab/settingregistry';

import { SandboxCommands } from './commands';
import { LabServer } from './labServer';
import { SandboxPanel } from './panel';
import { Sandboxes } from './sandboxes';
import { Settings } from './settings';
import { CommandIDs, ISandboxes, ISandboxCommands, PALETTE_CATEGORY } from './tokens';

/** Knows the sandboxes of this server. */
export const sandboxesPlugin: JupyterFrontEndPlugin<Sandboxes> = {
  id: 'sbx-jupyter:sandboxes',
  description: 'Knows the sandboxes of this server.',
  autoStart: true,
  provides: ISandboxes,
  activate: (app: JupyterFrontEnd) => new Sandboxes(new LabServer(app.serviceManager.serverSettings))
};

/** The panel, its commands and its settings. */
export const panelPlugin: JupyterFrontEndPlugin<SandboxCommands> = {
  id: 'sbx-jupyter:panel',
  description: 'The list of sandboxes, the commands on them and their settings.',
  autoStart: true,
  requires: [ISandboxes],
  optional: [ICommandPalette, ILayoutRestorer, ISettingRegistry],
  provides: ISandboxCommands,
  activate: (
    app: JupyterFrontEnd,
    sandboxes: Sandboxes,
    palette: ICommandPalette | null,
    restorer: ILayoutRestorer | null,
    registry: ISettingRegistry | null
  ): SandboxCommands => {
    const settings = new Settings();
    const commands = new SandboxCommands(sandboxes, settings, app.commands);
    commands.register();
    const panel = new SandboxPanel(sandboxes, app.commands);
    restorer?.add(panel, panel.id);
    app.shell.add(panel, 'left', { rank: 600, type: 'Sandboxes' });
    for (const command of Object.values(CommandIDs)) {
      palette?.addItem({ command, category: PALETTE_CATEGORY });
    }
    registry
      ?.load('sbx-jupyter:panel')
      .then(loaded => {
        settings.follow(loaded, values => {
          sandboxes.setInterval(values.pollInterval);
        });
      })
      .catch((reason: unknown) => {
        console.error('The settings of sbx-jupyter could not be read; the defaults hold.', reason);
      });
    return commands;
  }
};

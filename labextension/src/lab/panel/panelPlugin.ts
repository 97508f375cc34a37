import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { ILayoutRestorer } from '@jupyterlab/application';
import { ICommandPalette } from '@jupyterlab/apputils';
import { ILauncher } from '@jupyterlab/launcher';
import { ISettingRegistry } from '@jupyterlab/settingregistry';
import { ITranslator, nullTranslator } from '@jupyterlab/translation';

import type { SandboxApi } from '../../components/sandboxApi';
import { setTranslation, trans } from '../../components/translation';
import { SandboxCommands } from './commands';
import { addSnapshotCommands } from './snapshotCommands';
import { LabServer } from '../labServer';
import type { CurrentNotebook } from '../notebooks/currentNotebook';
import { EndedSandboxes } from './list/endedSandboxes';
import { SandboxPanel } from './panel';
import { addSeveralCommands } from './severalCommands';
import { Usage } from './list/usage';
import { Sandboxes } from '../sandboxes';
import { Settings } from '../settings';
import { CommandIDs } from '../commandIds';
import { ICurrentNotebook, ISandboxApi, ISandboxes, ISandboxCommands } from '../tokens';

/** Provides the sandboxes of this server to the other plugins. */
export const sandboxesPlugin: JupyterFrontEndPlugin<Sandboxes> = {
  id: 'sbx-jupyter:sandboxes',
  description: 'Knows the sandboxes of this server.',
  autoStart: true,
  optional: [ITranslator],
  provides: ISandboxes,
  activate: (app: JupyterFrontEnd, translator: ITranslator | null) => {
    // The other plugins require this one, so the language is set before any message is shown.
    setTranslation((translator ?? nullTranslator).load('sbx_jupyter'));
    return new Sandboxes(new LabServer(app.serviceManager.serverSettings));
  }
};

/** Provides the typed routes of this server to other extensions. */
export const apiPlugin: JupyterFrontEndPlugin<SandboxApi> = {
  id: 'sbx-jupyter:api',
  description: 'Calls the routes of this server about sandboxes.',
  requires: [ISandboxes],
  provides: ISandboxApi,
  activate: (_: JupyterFrontEnd, sandboxes: Sandboxes) => sandboxes.api
};

/** The panel, its commands and its settings. */
export const panelPlugin: JupyterFrontEndPlugin<SandboxCommands> = {
  id: 'sbx-jupyter:panel',
  description: 'The list of sandboxes, the commands on them and their settings.',
  autoStart: true,
  requires: [ISandboxes, ICurrentNotebook],
  optional: [ICommandPalette, ILayoutRestorer, ISettingRegistry, ILauncher],
  provides: ISandboxCommands,
  activate: (
    app: JupyterFrontEnd,
    sandboxes: Sandboxes,
    notebook: CurrentNotebook,
    palette: ICommandPalette | null,
    restorer: ILayoutRestorer | null,
    registry: ISettingRegistry | null,
    launcher: ILauncher | null
  ): SandboxCommands => {
    const settings = new Settings();
    const commands = new SandboxCommands(sandboxes, settings, app.commands, () => {
      app.shell.activateById('sbx-panel');
    });
    commands.register();
    addSnapshotCommands(app.commands, commands, sandboxes, settings);
    addSeveralCommands(app.commands, sandboxes);
    const panel = new SandboxPanel(sandboxes, new Usage(sandboxes), new EndedSandboxes(sandboxes), app.commands, notebook);
    restorer?.add(panel, panel.id);
    app.shell.add(panel, 'left', { rank: 600, type: trans.__('Sandboxes') });
    for (const command of Object.values(CommandIDs)) {
      palette?.addItem({ command, category: trans.__('Sandboxes') });
    }
    launcher?.add({ command: CommandIDs.create, args: { isLauncher: true }, category: trans.__('Other'), rank: 0 });
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

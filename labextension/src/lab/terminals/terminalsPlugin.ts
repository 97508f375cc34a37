import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { ILayoutRestorer } from '@jupyterlab/application';
import { InputDialog, IThemeManager, Notification, WidgetTracker } from '@jupyterlab/apputils';
import type { DocumentRegistry } from '@jupyterlab/docregistry';
import { PageConfig } from '@jupyterlab/coreutils';
import { ILauncher } from '@jupyterlab/launcher';
import { IMainMenu } from '@jupyterlab/mainmenu';
import { IRunningSessionManagers } from '@jupyterlab/running';
import { ISettingRegistry } from '@jupyterlab/settingregistry';
import { terminalIcon } from '@jupyterlab/ui-components';
import { UUID } from '@lumino/coreutils';
import { Throttler } from '@lumino/polling';

import { trans } from '../../components/translation';
import { messageOf } from '../../protocol/errors';
import type { ITerminalInfo } from '../../protocol/sandboxes';
import { displayName, terminalTitle } from '../../protocol/sandboxes';
import type { SandboxCommands } from '../panel/commands';
import { describedBy, labelled, numberOf, sandboxArg, stringOf } from '../panel/commands';
import { sandboxIcon } from '../icons';
import { limitsText } from '../limitsText';
import type { Sandboxes } from '../sandboxes';
import { addTab, isInFront } from '../addTab';
import { addClipboardCommands } from './clipboardCommands';
import { addEndTerminalCommand, notifyStillRunning } from './endTerminal';
import { RunningTerminals } from './runningTerminals';
import { listTerminals } from './terminalCalls';
import { TerminalConnection } from './terminalConnection';
import { addSharingCommands, openLinkedTerminal } from './sharedTerminals';
import { followSandbox } from './followSandbox';
import { TerminalPreferences } from './terminalPreferences';
import { addViewCommands } from './viewCommands';
import { TerminalWidget } from './terminalWidget';
import { CommandIDs } from '../commandIds';
import { ISandboxCommands, ISandboxes } from '../tokens';
import { notifyError } from '../notifications';

/** Milliseconds between two saves of how much output a terminal has shown. */
const SAVE_INTERVAL = 10_000;

/** Terminals in sandboxes, shown by JupyterLab's terminal widget and restored after a reload. */
export const terminalsPlugin: JupyterFrontEndPlugin<void> = {
  id: 'sbx-jupyter:terminals',
  description: 'Terminals in sandboxes.',
  autoStart: true,
  requires: [ISandboxes, ISandboxCommands],
  optional: [ILauncher, ILayoutRestorer, IMainMenu, ISettingRegistry, IThemeManager, IRunningSessionManagers],
  activate: (
    app: JupyterFrontEnd,
    sandboxes: Sandboxes,
    commands: SandboxCommands,
    launcher: ILauncher | null,
    restorer: ILayoutRestorer | null,
    menu: IMainMenu | null,
    registry: ISettingRegistry | null,
    themes: IThemeManager | null,
    managers: IRunningSessionManagers | null
  ) => {
    const preferences = new TerminalPreferences(registry, themes);
    const tracker = new WidgetTracker<TerminalWidget>({ namespace: 'sbx-terminal' });
    const end = addEndTerminalCommand(app, sandboxes, tracker, menu);
    const split = (widget: TerminalWidget) =>
      void app.commands.execute(CommandIDs.openTerminal, { sandbox: widget.connection.sandboxId, beside: widget.id });
    const restart = (widget: TerminalWidget) =>
      void app.commands.execute(CommandIDs.openTerminal, { sandbox: widget.connection.sandboxId, replaces: widget.id });
    const resume = ({ connection }: TerminalWidget) => void app.commands.execute(CommandIDs.resume, { sandbox: connection.sandboxId });
    app.commands.addCommand(CommandIDs.openTerminal, {
      label: args => terminalLabel(args),
      caption: trans.__('Open a terminal in a sandbox'),
      icon: args => (args['isLauncher'] ? sandboxIcon : terminalIcon),
      describedBy: describedBy({
        sandbox: sandboxArg,
        pid: { type: 'integer', description: 'A terminal that runs already.' },
        since: { type: 'integer', description: 'How many bytes of its output were shown before.' },
        path: { type: 'string', description: 'The directory in which a new shell starts; else the home directory.' },
        readOnly: { type: 'boolean', description: 'Shows a terminal that runs already and takes no keys.' },
        beside: { type: 'string', description: 'The id of the tab beside which this one is opened; else as a tab.' },
        replaces: { type: 'string', description: 'The id of the tab of an ended terminal, which is closed.' },
        key: { type: 'string', description: 'Names the tab for the layout.' }
      }),
      execute: async args => {
        const target = await terminalTarget(sandboxes, commands, args);
        if (target === null) {
          return null;
        }
        const others = tracker.filter(({ id, connection: { sandboxId } }) => sandboxId === target.sandboxId && id !== args['replaces']);
        const taken = new Set(others.map(({ connection: { name } }) => name));
        const connection = new TerminalConnection(
          sandboxes.transport(target.sandboxId),
          app.serviceManager.serverSettings,
          {
            sandboxId: target.sandboxId,
            name: freeTitle(target.name, taken),
            pid: numberOf(args['pid']),
            since: numberOf(args['since']),
            cwd: stringOf(args['path']),
            isReadOnly: args['readOnly'] === true
          }
        );
        const widget = new TerminalWidget(connection, target.name, limitsText(sandboxes.find(target.sandboxId)), preferences, { end, restart, resume, split });
        followSandbox(sandboxes, connection);
        // The layout finds a restored tab by the name that it had.
        widget.id = stringOf(args['key']) ?? `sbx-terminal-${UUID.uuid4()}`;
        widget.title.dataset = { ...widget.title.dataset, type: 'sbx-terminal' };
        const beside = stringOf(args['beside']);
        const replaced = tracker.find(({ id }) => id === args['replaces']);
        addTab(app, widget, { type: trans.__('Sandbox terminal'), ...placeFor(beside, replaced) });
        await tracker.add(widget);
        replaced?.closeEnded();
        saveRestoreArgs(tracker, widget);
        widget.closedWhileRunning.connect(() => {
          notifyStillRunning(app.commands, sandboxes, widget);
        });
        if (args['restored'] !== true) {
          app.shell.activateById(widget.id);
          void focusWhenReady(app, widget);
        }
        return widget;
      }
    });
    app.commands.addCommand(CommandIDs.attachTerminal, {
      label: labelled(trans.__('Reopen Terminal…'), trans.__('Reopen Sandbox Terminal…')),
      caption: trans.__('Show a terminal that still runs in the sandbox'),
      describedBy: describedBy(),
      execute: async args => {
        const sandbox = await commands.target(args);
        const pid = sandbox === null ? null : await pickTerminal(sandboxes, sandbox.sandboxID, tracker);
        if (sandbox !== null && pid !== null) {
          await app.commands.execute(CommandIDs.openTerminal, { sandbox: sandbox.sandboxID, pid });
        }
      }
    });
    addViewCommands(app, tracker);
    addSharingCommands(app, sandboxes, tracker, new URL(PageConfig.getUrl({ mode: 'multiple-document' })).href);
    void openLinkedTerminal(app);
    addClipboardCommands(app, tracker);
    managers?.add(new RunningTerminals(app, sandboxes, tracker));
    launcher?.add({
      command: CommandIDs.openTerminal,
      args: { isLauncher: true },
      category: trans.__('Other'),
      rank: 1
    });
    void restorer?.restore(tracker, {
      command: CommandIDs.openTerminal,
      args: widget => ({ ...widget.connection.restoreArgs, key: widget.id, restored: true }),
      name: widget => widget.id,
      when: app.serviceManager.ready
    });
  }
};

/** The place for a new tab: to the right of another one, in the place of another one, or anywhere. */
function placeFor(beside: string | undefined, replaced: TerminalWidget | undefined): DocumentRegistry.IOpenOptions {
  if (replaced !== undefined) {
    return { ref: replaced.id, mode: 'tab-after' };
  }
  return beside === undefined ? {} : { ref: beside, mode: 'split-right' };
}

/** The name of a tab: that of the sandbox, with a number if other tabs have it. */
function freeTitle(name: string, taken: ReadonlySet<string>): string {
  let title = name;
  for (let number = 2; taken.has(title); number += 1) {
    title = `${name} (${number})`;
  }
  return title;
}

function terminalLabel(args: Readonly<Record<string, unknown>>): string {
  if (args['isLauncher'] === true) {
    return trans.__('Sandbox Terminal');
  }
  return args['sandbox'] === undefined ? trans.__('Open Sandbox Terminal') : trans.__('Open Terminal');
}

/** Focuses the screen, which is created some time after its widget. */
async function focusWhenReady(app: JupyterFrontEnd, widget: TerminalWidget): Promise<void> {
  await widget.content.ready;
  window.requestAnimationFrame(() => {
    if (!widget.isDisposed && isInFront(app, widget)) {
      widget.content.activate();
    }
  });
}

/** Lets the user pick one of the terminals that run and are not on this page. */
async function pickTerminal(
  sandboxes: Sandboxes,
  sandboxId: string,
  tracker: WidgetTracker<TerminalWidget>
): Promise<number | null> {
  let running: readonly ITerminalInfo[];
  try {
    running = await listTerminals(sandboxes.api, sandboxId);
  } catch (reason) {
    notifyError(trans.__('The terminals could not be listed. %1', messageOf(reason)));
    return null;
  }
  const hidden = running.filter(({ pid }) => {
    const shown = tracker.find(({ connection }) => connection.sandboxId === sandboxId && connection.pid === pid);
    return shown === undefined;
  });
  if (hidden.length === 0) {
    Notification.info(trans.__('No other terminal runs in this sandbox.'), { autoClose: 4000 });
    return null;
  }
  const labels = hidden.map(info => `${terminalTitle(info)} (${info.pid})`);
  const result = await InputDialog.getItem({ title: trans.__('Which terminal?'), items: labels, okLabel: trans.__('Open') });
  const at = result.button.accept && result.value !== null ? labels.indexOf(result.value) : -1;
  return hidden[at]?.pid ?? null;
}

/** Finds the sandbox for a new terminal; creates one if there is none. */
async function terminalTarget(
  sandboxes: Sandboxes,
  commands: SandboxCommands,
  args: Readonly<Record<string, unknown>>
): Promise<{ sandboxId: string; name: string } | null> {
  const wanted = stringOf(args['sandbox']);
  if (wanted !== undefined && numberOf(args['pid']) !== undefined && sandboxes.items === null) {
    await sandboxes.refresh();
  }
  if (wanted === undefined) {
    await sandboxes.refresh();
    if (sandboxes.items?.length === 0) {
      const made = await commands.createDefault();
      return made === null ? null : { sandboxId: made.sandboxID, name: displayName(made) };
    }
  }
  const restored = args['restored'] === true;
  const sandbox = await commands.target(wanted === undefined ? {} : { sandbox: wanted, restored });
  return sandbox === null || !(await commands.ensureRunning(sandbox)) ? null : { sandboxId: sandbox.sandboxID, name: displayName(sandbox) };
}

/** Saves the arguments that restore the terminal: at once when it connects, then at intervals. */
function saveRestoreArgs(tracker: WidgetTracker<TerminalWidget>, widget: TerminalWidget): void {
  const throttler = new Throttler(
    async () => {
      if (!widget.isDisposed) {
        await tracker.save(widget);
      }
    },
    { limit: SAVE_INTERVAL, edge: 'trailing' }
  );
  widget.connection.connectionStatusChanged.connect((_, status) => {
    if (status === 'connected') {
      void tracker.save(widget);
    }
  });
  widget.connection.advanced.connect(() => void throttler.invoke());
  widget.disposed.connect(() => {
    throttler.dispose();
  });
}

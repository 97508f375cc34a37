import { InputDialog, Notification } from '@jupyterlab/apputils';
import type { CommandRegistry } from '@lumino/commands';

import { trans } from '../../components/translation';
import { messageOf } from '../../protocol/errors';
import type { ITemplate } from '../../protocol/sandboxes';
import { displayName, shortTemplate, templateLabel } from '../../protocol/sandboxes';
import type { IOutcome, SandboxCommands } from './commands';
import { describedBy, labelled, sandboxArg, stringOf } from './commands';
import { confirmRemoval } from './dialogs';
import { forkIcon, renameIcon, snapshotIcon } from '../icons';
import type { Sandboxes } from '../sandboxes';
import type { Settings } from '../settings';
import { CommandIDs } from '../commandIds';
import { notifyError } from '../notifications';

const RENAMED: IOutcome = {
  success: name => trans.__('%1 has a new name.', name),
  failure: (name, sentence) => trans.__('%1 could not be renamed. %2', name, sentence)
};
const KEPT: IOutcome = {
  success: name => trans.__('A snapshot of %1 was taken.', name),
  failure: (name, sentence) => trans.__('No snapshot of %1 was taken. %2', name, sentence)
};
const FORKED: IOutcome = {
  success: name => trans.__('A fork of %1 is running.', name),
  failure: (name, sentence) => trans.__('%1 could not be forked. %2', name, sentence)
};

/** Adds the commands that rename, snapshot and fork sandboxes and delete templates. */
export function addSnapshotCommands(
  registry: CommandRegistry,
  commands: SandboxCommands,
  sandboxes: Sandboxes,
  settings: Settings
): void {
  registry.addCommand(CommandIDs.rename, {
    label: labelled(trans.__('Rename…'), trans.__('Rename Sandbox…')),
    caption: trans.__('Give the sandbox another name'),
    icon: renameIcon,
    describedBy: describedBy({ sandbox: sandboxArg, name: { type: 'string' } }),
    execute: args =>
      commands.act(args, RENAMED, async sandbox => {
        const name = stringOf(args['name']) ?? (await askForName(sandbox.metadata?.['name'] ?? ''));
        if (name !== null) {
          await sandboxes.rename(sandbox.sandboxID, name.trim());
        }
        return false;
      })
  });
  registry.addCommand(CommandIDs.snapshot, {
    label: labelled(trans.__('Snapshot…'), trans.__('Take a Snapshot of a Sandbox…')),
    caption: trans.__('Keep the files as they are, to create other sandboxes from them'),
    icon: snapshotIcon,
    describedBy: describedBy({ sandbox: sandboxArg, name: { type: 'string' } }),
    execute: args =>
      commands.act(args, KEPT, async sandbox => {
        const name = stringOf(args['name']) ?? (await askForSnapshot());
        if (name !== null) {
          const made = await sandboxes.snapshot(sandbox.sandboxID, name === '' ? undefined : name);
          offerSnapshot(registry, made.snapshotID, shortTemplate(made.names[0] ?? made.snapshotID));
        }
        return false;
      })
  });
  registry.addCommand(CommandIDs.fork, {
    label: labelled(trans.__('Fork'), trans.__('Fork Sandbox')),
    caption: trans.__('Start a copy of the sandbox with the same files'),
    icon: forkIcon,
    describedBy: describedBy(),
    execute: args =>
      commands.act(args, FORKED, async sandbox => {
        const name = trans.__('%1 (copy)', displayName(sandbox));
        const copy = await sandboxes.fork(sandbox.sandboxID, name, settings.current.defaultTimeout);
        Notification.success(trans.__('Sandbox %1 is running.', displayName(copy)), { autoClose: 4000 });
        return false;
      })
  });
  registry.addCommand(CommandIDs.removeTemplate, {
    label: trans.__('Delete a Snapshot or Template…'),
    caption: trans.__('Free what a snapshot or a template takes on the disk'),
    describedBy: describedBy({}),
    execute: () => removeTemplate(sandboxes)
  });
}

async function askForName(current: string): Promise<string | null> {
  const { button, value } = await InputDialog.getText({
    title: trans.__('Rename sandbox'),
    label: trans.__('Name'),
    text: current,
    placeholder: trans.__('Without a name its id is shown'),
    okLabel: trans.__('Rename')
  });
  return button.accept ? (value ?? '') : null;
}

async function askForSnapshot(): Promise<string | null> {
  const { button, value } = await InputDialog.getText({
    title: trans.__('Take a snapshot'),
    label: trans.__('Name (optional)'),
    placeholder: trans.__('a-z, 0-9, - and _'),
    okLabel: trans.__('Take snapshot')
  });
  return button.accept ? (value ?? '').trim() : null;
}

/** Notifies that a snapshot was taken, and offers to create a sandbox from it. */
function offerSnapshot(registry: CommandRegistry, template: string, name: string): void {
  Notification.success(trans.__('Snapshot %1 was taken.', name), {
    autoClose: 8000,
    actions: [
      {
        label: trans.__('New sandbox from it'),
        callback: () => void registry.execute(CommandIDs.create, { template })
      }
    ]
  });
}

async function removeTemplate(sandboxes: Sandboxes): Promise<void> {
  let offered: readonly ITemplate[];
  try {
    offered = (await sandboxes.templates()).filter(({ buildStatus }) => buildStatus !== 'building');
  } catch (reason) {
    notifyError(trans.__('The templates could not be listed. %1', messageOf(reason)));
    return;
  }
  if (offered.length === 0) {
    Notification.info(trans.__('There are no snapshots or templates.'), { autoClose: 4000 });
    return;
  }
  const labels = offered.map(templateLabel);
  const { button, value } = await InputDialog.getItem({
    title: trans.__('Delete which snapshot or template?'),
    items: labels,
    okLabel: trans.__('Choose')
  });
  const chosen = button.accept && value !== null ? offered[labels.indexOf(value)] : undefined;
  if (chosen === undefined || !(await confirmRemoval(templateLabel(chosen)))) {
    return;
  }
  try {
    await sandboxes.removeTemplate(chosen.templateID);
    Notification.success(trans.__('%1 is deleted.', templateLabel(chosen)), { autoClose: 4000 });
  } catch (reason) {
    notifyError(trans.__('%1 could not be deleted. %2', templateLabel(chosen), messageOf(reason)));
  }
}

import { Dialog, Notification, showDialog } from '@jupyterlab/apputils';
import type { CommandRegistry } from '@lumino/commands';
import type { ReadonlyPartialJSONObject } from '@lumino/coreutils';
import { Widget } from '@lumino/widgets';

import { element } from '../../components/dom';
import { trans } from '../../components/translation';
import { messageOf } from '../../protocol/errors';
import type { ISandbox } from '../../protocol/sandboxes';
import { displayName } from '../../protocol/sandboxes';
import { CommandIDs } from '../commandIds';
import { killIcon, pauseIcon } from '../icons';
import { notifyError } from '../notifications';
import type { Sandboxes } from '../sandboxes';
import { describedBy } from './commands';

/** Names that a question lists; of more it gives the number. */
const MOST_NAMES = 8;

const SEVERAL = {
  sandboxes: { type: 'array', items: { type: 'string' }, description: 'The ids of the sandboxes; all if it is missing.' }
};

/** Adds the commands that change several sandboxes at once. */
export function addSeveralCommands(registry: CommandRegistry, sandboxes: Sandboxes): void {
  registry.addCommand(CommandIDs.pauseSeveral, {
    label: args => (named(args) === null ? trans.__('Pause All Sandboxes…') : trans.__('Pause the Chosen Sandboxes…')),
    icon: pauseIcon,
    describedBy: describedBy(SEVERAL),
    execute: async args => {
      const running = (await chosen(sandboxes, args)).filter(({ state }) => state === 'running');
      if (await isOne(registry, CommandIDs.pause, running)) {
        return;
      }
      const text = trans.__('Their files and processes stay until they are resumed.');
      if (running.length > 0 && (await confirm(trans.__('Pause %1 sandboxes?', running.length), running, text, trans.__('Pause')))) {
        await each(running, sandbox => sandboxes.pause(sandbox.sandboxID), {
          done: number => (number === 1 ? trans.__('1 sandbox is paused.') : trans.__('%1 sandboxes are paused.', number)),
          failed: (name, sentence) => trans.__('%1 could not be paused. %2', name, sentence)
        });
      }
    }
  });
  registry.addCommand(CommandIDs.killSeveral, {
    label: args => (named(args) === null ? trans.__('Kill All Sandboxes…') : trans.__('Kill the Chosen Sandboxes…')),
    icon: killIcon,
    describedBy: describedBy(SEVERAL),
    execute: async args => {
      const targets = await chosen(sandboxes, args);
      if (await isOne(registry, CommandIDs.kill, targets)) {
        return;
      }
      const text = trans.__('Their processes end and their files are deleted. This cannot be undone.');
      if (targets.length > 0 && (await confirm(trans.__('Kill %1 sandboxes?', targets.length), targets, text, trans.__('Kill sandboxes')))) {
        await each(targets, sandbox => sandboxes.kill(sandbox.sandboxID), {
          done: number => (number === 1 ? trans.__('1 sandbox was killed.') : trans.__('%1 sandboxes were killed.', number)),
          failed: (name, sentence) => trans.__('%1 could not be killed. %2', name, sentence)
        });
      }
    }
  });
}

function named(args: ReadonlyPartialJSONObject): readonly unknown[] | null {
  return Array.isArray(args['sandboxes']) ? args['sandboxes'] : null;
}

async function chosen(sandboxes: Sandboxes, args: ReadonlyPartialJSONObject): Promise<readonly ISandbox[]> {
  if (sandboxes.items === null) {
    await sandboxes.refresh();
  }
  const ids = named(args);
  return (sandboxes.items ?? []).filter(({ sandboxID }) => ids === null || ids.includes(sandboxID));
}

/** Whether it is only one: then the command for one sandbox runs, with its own question and messages. */
async function isOne(registry: CommandRegistry, command: string, targets: readonly ISandbox[]): Promise<boolean> {
  const [only, second] = targets;
  if (only === undefined || second !== undefined) {
    return false;
  }
  await registry.execute(command, { sandbox: only.sandboxID });
  return true;
}

async function confirm(title: string, targets: readonly ISandbox[], text: string, label: string): Promise<boolean> {
  const body = new Widget({ node: element('div', 'sbx-Confirm') });
  const more = targets.length - MOST_NAMES;
  const names = targets.slice(0, MOST_NAMES).map(sandbox => element('li', '', {}, displayName(sandbox)));
  body.node.append(
    element('ul', 'sbx-Confirm-names', {}, ...names, ...(more > 0 ? [element('li', '', {}, trans.__('and %1 more', more))] : [])),
    element('p', '', {}, text)
  );
  const { button } = await showDialog({ title, body, buttons: [Dialog.cancelButton(), Dialog.warnButton({ label })], defaultButton: 0 });
  return button.accept;
}

interface IOutcomes {
  done(number: number): string;
  failed(name: string, sentence: string): string;
}

/** Does the same to all of them at once, and says how many succeeded and which failed. */
async function each(targets: readonly ISandbox[], work: (sandbox: ISandbox) => Promise<void>, outcomes: IOutcomes): Promise<void> {
  const results = await Promise.allSettled(targets.map(work));
  const succeeded = results.filter(({ status }) => status === 'fulfilled').length;
  if (succeeded > 0) {
    Notification.success(outcomes.done(succeeded), { autoClose: 3000 });
  }
  results.forEach((result, at) => {
    const sandbox = targets[at];
    if (result.status === 'rejected' && sandbox !== undefined) {
      notifyError(outcomes.failed(displayName(sandbox), messageOf(result.reason)));
    }
  });
}

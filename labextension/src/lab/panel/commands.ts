import { Clipboard, Notification } from '@jupyterlab/apputils';
import { addIcon, copyIcon, refreshIcon } from '@jupyterlab/ui-components';
import type { CommandRegistry } from '@lumino/commands';
import type { ReadonlyJSONObject, ReadonlyPartialJSONObject } from '@lumino/coreutils';

import { formatDuration } from '../../components/format';
import { trans } from '../../components/translation';
import { messageOf } from '../../protocol/errors';
import type { INewSandbox, ISandbox } from '../../protocol/sandboxes';
import { displayName } from '../../protocol/sandboxes';
import { askForTimeout, confirmKill, pickSandbox } from './dialogs';
import { killIcon, pauseIcon, resumeIcon, sandboxIcon, shieldIcon, timeIcon } from '../icons';
import { freeSandboxName } from './list/sandboxOrder';
import type { Sandboxes } from '../sandboxes';
import type { Settings } from '../settings';
import { CommandIDs } from '../commandIds';
import { notifyError } from '../notifications';

type Args = ReadonlyPartialJSONObject;

export const sandboxArg: ReadonlyJSONObject = { type: 'string', description: 'The id of the sandbox.' };

/** The schema of a command's arguments, as JupyterLab documents them. */
export function describedBy(properties: ReadonlyJSONObject = { sandbox: sandboxArg }) {
  return { args: { type: 'object', properties } as ReadonlyJSONObject };
}

/** The notifications after a command on a sandbox. */
export interface IOutcome {
  success(name: string): string;
  failure(name: string, sentence: string): string;
}

const PAUSED: IOutcome = {
  success: name => trans.__('%1 is paused.', name),
  failure: (name, sentence) => trans.__('%1 could not be paused. %2', name, sentence)
};
const RESUMED: IOutcome = {
  success: name => trans.__('%1 runs again.', name),
  failure: (name, sentence) => trans.__('%1 could not be resumed. %2', name, sentence)
};
const KILLED: IOutcome = {
  success: name => trans.__('%1 was killed.', name),
  failure: (name, sentence) => trans.__('%1 could not be killed. %2', name, sentence)
};
const EXTENDED: IOutcome = {
  success: name => trans.__('The time of %1 was extended.', name),
  failure: (name, sentence) => trans.__('The time of %1 could not be set. %2', name, sentence)
};

/** Registers the commands on sandboxes, resolves their sandbox and notifies of the result. */
export class SandboxCommands {
  constructor(
    private readonly sandboxes: Sandboxes,
    private readonly settings: Settings,
    private readonly commands: CommandRegistry,
    private readonly showPanel: () => void
  ) {}

  /** The one named by the arguments, else the only one, else the one that the user picks. */
  async target(args: Args): Promise<ISandbox | null> {
    if (this.sandboxes.items === null || typeof args['sandbox'] === 'string') {
      const known = this.named(args);
      if (known !== undefined) {
        return known;
      }
      await this.sandboxes.refresh();
    }
    if (typeof args['sandbox'] === 'string') {
      const known = this.named(args);
      // A restored layout may name a sandbox that ended long ago.
      if (known === undefined && args['restored'] !== true) {
        Notification.error(trans.__('There is no sandbox %1 any more.', args['sandbox']), { autoClose: 5000 });
      }
      return known ?? null;
    }
    const items = this.sandboxes.items ?? [];
    if (items.length === 0) {
      this.offerCreate();
      return null;
    }
    return items.length === 1 ? (items[0] ?? null) : pickSandbox(items);
  }

  /**
   * Creates a sandbox, with a notification of the progress and the result; `null` if it failed.
   * Without a name it gets its template's with a number.
   */
  async create(request: INewSandbox): Promise<ISandbox | null> {
    const { defaultTemplate } = this.settings.current;
    const what = request.name ?? freeSandboxName(request.template ?? defaultTemplate, this.sandboxes.items ?? []);
    const promise = this.sandboxes.create({ ...request, name: what });
    Notification.promise(promise as Promise<never>, {
      pending: { message: trans.__('Creating %1…', what) },
      success: {
        message: result => trans.__('Sandbox %1 is running.', displayName(result as ISandbox)),
        options: { autoClose: 4000 }
      },
      error: {
        message: reason => trans.__('The sandbox could not be created. %1', messageOf(reason)),
        options: { autoClose: false }
      }
    });
    try {
      return await promise;
    } catch {
      // The notification shows why.
      return null;
    }
  }

  createDefault(): Promise<ISandbox | null> {
    const { defaultTemplate, defaultTimeout } = this.settings.current;
    return this.create({ template: defaultTemplate, timeout: defaultTimeout });
  }

  resume(sandbox: ISandbox): Promise<void> {
    return this.sandboxes.resume(sandbox.sandboxID, this.settings.current.defaultTimeout);
  }

  /** Resumes the sandbox if it is paused; `false`, with a notification of why, if that fails. */
  async ensureRunning(sandbox: ISandbox): Promise<boolean> {
    if (sandbox.state !== 'paused') {
      return true;
    }
    try {
      await this.resume(sandbox);
      return true;
    } catch (reason) {
      notifyError(RESUMED.failure(displayName(sandbox), messageOf(reason)));
      return false;
    }
  }

  register(): void {
    this.registerCreation();
    this.registerLifecycle();
    this.registerSurroundings();
  }

  private registerCreation(): void {
    this.commands.addCommand(CommandIDs.create, {
      label: trans.__('New Sandbox'),
      caption: trans.__('Create a sandbox with the default template and timeout'),
      icon: args => (args['isLauncher'] === true ? sandboxIcon : addIcon),
      describedBy: describedBy({
        template: { type: 'string' },
        timeout: { type: 'integer', description: 'Seconds.' },
        name: { type: 'string' }
      }),
      execute: async args => {
        const values = this.settings.current;
        const sandbox = await this.create({
          template: stringOf(args['template']) ?? values.defaultTemplate,
          timeout: numberOf(args['timeout']) ?? values.defaultTimeout,
          ...(stringOf(args['name']) === undefined ? {} : { name: stringOf(args['name']) })
        });
        if (args['isLauncher'] === true) {
          this.showPanel();
        }
        return sandbox?.sandboxID ?? null;
      }
    });
    this.commands.addCommand(CommandIDs.createWithOptions, {
      label: trans.__('New Sandbox with Options…'),
      caption: trans.__('Choose name, template and timeout of a new sandbox'),
      icon: addIcon,
      describedBy: describedBy({}),
      execute: async () => {
        const { askForSandbox } = await import('./newSandboxDialog');
        const request = await askForSandbox(this.settings.current, this.sandboxes);
        const sandbox = request === null ? null : await this.create(request);
        return sandbox?.sandboxID ?? null;
      }
    });
  }

  private registerLifecycle(): void {
    const isPaused = (args: Args) => this.named(args)?.state === 'paused';
    this.commands.addCommand(CommandIDs.pause, {
      label: labelled(trans.__('Pause'), trans.__('Pause Sandbox')),
      caption: trans.__('Pause the sandbox; its files and processes stay'),
      icon: pauseIcon,
      isVisible: args => !isPaused(args),
      describedBy: describedBy(),
      execute: args => this.act(args, PAUSED, sandbox => this.sandboxes.pause(sandbox.sandboxID))
    });
    this.commands.addCommand(CommandIDs.resume, {
      label: labelled(trans.__('Resume'), trans.__('Resume Sandbox')),
      caption: trans.__('Resume the paused sandbox'),
      icon: resumeIcon,
      isVisible: args => args['sandbox'] === undefined || isPaused(args),
      describedBy: describedBy(),
      execute: args => this.act(args, RESUMED, sandbox => this.resume(sandbox))
    });
    this.commands.addCommand(CommandIDs.kill, {
      label: labelled(trans.__('Kill…'), trans.__('Kill Sandbox…')),
      caption: trans.__('End the sandbox and delete its files'),
      icon: killIcon,
      describedBy: describedBy(),
      execute: args =>
        this.act(args, KILLED, async sandbox => {
          const sure = await confirmKill(sandbox);
          if (sure) {
            await this.sandboxes.kill(sandbox.sandboxID);
          }
          return sure;
        })
    });
    this.commands.addCommand(CommandIDs.setTimeout, {
      label: args =>
        typeof args['timeout'] === 'number' ? formatDuration(args['timeout']) : trans.__('Extend Time of Sandbox…'),
      caption: trans.__('Choose how long the sandbox lives from now on'),
      icon: args => (typeof args['timeout'] === 'number' ? undefined : timeIcon),
      describedBy: describedBy({ sandbox: sandboxArg, timeout: { type: 'integer', description: 'Seconds from now.' } }),
      execute: args => this.act(args, EXTENDED, sandbox => this.keepFor(sandbox, numberOf(args['timeout'])))
    });
  }

  /** Sets the timeout of the sandbox; a shorter one can be undone. */
  private async keepFor(sandbox: ISandbox, wanted: number | undefined): Promise<boolean> {
    const timeout = wanted ?? (await askForTimeout());
    if (timeout === null) {
      return false;
    }
    const left = Math.floor((Date.parse(sandbox.endAt) - this.sandboxes.now()) / 1000);
    await this.sandboxes.setTimeout(sandbox.sandboxID, timeout);
    if (timeout >= left) {
      return true;
    }
    Notification.success(trans.__('%1 now ends in %2, sooner than before.', displayName(sandbox), formatDuration(timeout)), {
      autoClose: 8000,
      actions: [
        {
          label: trans.__('Undo'),
          callback: () => void this.commands.execute(CommandIDs.setTimeout, { sandbox: sandbox.sandboxID, timeout: left })
        }
      ]
    });
    return false;
  }

  private registerSurroundings(): void {
    this.commands.addCommand(CommandIDs.copyId, {
      label: labelled(trans.__('Copy Id'), trans.__('Copy Sandbox Id')),
      icon: copyIcon,
      describedBy: describedBy(),
      execute: async args => {
        const sandbox = await this.target(args);
        if (sandbox !== null) {
          Clipboard.copyToSystem(sandbox.sandboxID);
        }
      }
    });
    this.commands.addCommand(CommandIDs.refresh, {
      label: trans.__('Refresh the List of Sandboxes'),
      icon: refreshIcon,
      describedBy: describedBy({}),
      execute: () => this.sandboxes.refresh()
    });
    this.commands.addCommand(CommandIDs.showIsolation, {
      label: trans.__('Show Isolation of Sandboxes'),
      caption: trans.__('Show how sandboxes are isolated on this machine'),
      icon: shieldIcon,
      describedBy: describedBy({}),
      execute: async () => {
        if (this.sandboxes.info === null) {
          await this.sandboxes.refresh();
        }
        const { showIsolation } = await import('./isolationDetails');
        await showIsolation(this.sandboxes.info);
      }
    });
  }

  /** Runs `work` on a sandbox and notifies of the result, unless `work` returns `false`. */
  async act(args: Args, done: IOutcome, work: (sandbox: ISandbox) => Promise<boolean | void>): Promise<void> {
    const sandbox = await this.target(args);
    if (sandbox === null) {
      return;
    }
    const name = displayName(sandbox);
    try {
      if ((await work(sandbox)) !== false) {
        Notification.success(done.success(name), { autoClose: 3000 });
      }
    } catch (reason) {
      notifyError(done.failure(name, messageOf(reason)));
    }
  }

  private offerCreate(): void {
    Notification.info(trans.__('There are no sandboxes yet.'), {
      autoClose: 6000,
      actions: [
        {
          label: trans.__('Create one'),
          displayType: 'accent',
          callback: () => void this.commands.execute(CommandIDs.create)
        }
      ]
    });
  }

  private named(args: Args): ISandbox | undefined {
    return typeof args['sandbox'] === 'string' ? this.sandboxes.find(args['sandbox']) : undefined;
  }
}

/** A label: short if the arguments name a sandbox, complete in the palette. */
export function labelled(short: string, whole: string): (args: Args) => string {
  return args => (args['sandbox'] === undefined ? whole : short);
}

export function stringOf(value: unknown): string | undefined {
  return typeof value === 'string' && value !== '' ? value : undefined;
}

export function numberOf(value: unknown): number | undefined {
  return typeof value === 'number' ? value : undefined;
}

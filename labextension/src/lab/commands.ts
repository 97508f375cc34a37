import { Clipboard, Notification } from '@jupyterlab/apputils';
import { addIcon, copyIcon, refreshIcon } from '@jupyterlab/ui-components';
import type { CommandRegistry } from '@lumino/commands';
import type { ReadonlyJSONObject, ReadonlyPartialJSONObject } from '@lumino/coreutils';

import { formatDuration } from '../components/format';
import { sentenceOf } from '../protocol/errors';
import type { INewSandbox, ISandbox } from '../protocol/sandboxes';
import { displayName } from '../protocol/sandboxes';
import { askForSandbox, askForTimeout, confirmKill, pickSandbox, showIsolation } from './dialogs';
import { killIcon, pauseIcon, resumeIcon, shieldIcon, timeIcon } from './icons';
import type { Sandboxes } from './sandboxes';
import type { Settings } from './settings';
import { CommandIDs } from './tokens';

type Args = ReadonlyPartialJSONObject;

const SANDBOX_ARG: ReadonlyJSONObject = { type: 'string', description: 'The id of the sandbox.' };

/** The schema of a command's arguments, as JupyterLab documents them. */
export function describedBy(properties: ReadonlyJSONObject = { sandbox: SANDBOX_ARG }) {
  return { args: { type: 'object', properties } as ReadonlyJSONObject };
}

export const sandboxArg = SANDBOX_ARG;

/** Finds the sandbox that a command is about, and says what became of the work on it. */
export class SandboxCommands {
  constructor(
    private readonly sandboxes: Sandboxes,
    private readonly settings: Settings,
    private readonly commands: CommandRegistry
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
      // What a restored layout remembers may be long gone, which is no news.
      if (known === undefined && args['restored'] !== true) {
        Notification.error(`There is no sandbox ${args['sandbox']} any more.`, { autoClose: 5000 });
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

  /** Creates a sandbox under a notification that follows its fate. */
  async create(request: INewSandbox): Promise<ISandbox | null> {
    const promise = this.sandboxes.create(request);
    const what = request.name ?? 'sandbox';
    Notification.promise(promise as Promise<never>, {
      pending: { message: `Creating ${what}…` },
      success: {
        message: result => `Sandbox ${displayName(result as ISandbox)} is running.`,
        options: { autoClose: 4000 }
      },
      error: {
        message: reason => `The sandbox could not be created. ${sentenceOf(reason)}`,
        options: { autoClose: false }
      }
    });
    try {
      return await promise;
    } catch {
      // The notification has said why.
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

  register(): void {
    this.registerCreation();
    this.registerLifecycle();
    this.registerSurroundings();
  }

  private registerCreation(): void {
    this.commands.addCommand(CommandIDs.create, {
      label: 'New Sandbox',
      caption: 'Create a sandbox with the default template and timeout',
      icon: addIcon,
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
        return sandbox?.sandboxID ?? null;
      }
    });
    this.commands.addCommand(CommandIDs.createWithOptions, {
      label: 'New Sandbox with Options…',
      caption: 'Choose name, template and timeout of a new sandbox',
      icon: addIcon,
      describedBy: describedBy({}),
      execute: async () => {
        const request = await askForSandbox(this.settings.current);
        const sandbox = request === null ? null : await this.create(request);
        return sandbox?.sandboxID ?? null;
      }
    });
  }

  private registerLifecycle(): void {
    const isPaused = (args: Args) => this.named(args)?.state === 'paused';
    this.commands.addCommand(CommandIDs.pause, {
      label: labelled('Pause'),
      caption: 'Pause the sandbox; its files and processes stay',
      icon: pauseIcon,
      isVisible: args => !isPaused(args),
      describedBy: describedBy(),
      execute: args => this.act(args, 'paused', sandbox => this.sandboxes.pause(sandbox.sandboxID))
    });
    this.commands.addCommand(CommandIDs.resume, {
      label: labelled('Resume'),
      caption: 'Resume the paused sandbox',
      icon: resumeIcon,
      isVisible: args => args['sandbox'] === undefined || isPaused(args),
      describedBy: describedBy(),
      execute: args => this.act(args, 'resumed', sandbox => this.resume(sandbox))
    });
    this.commands.addCommand(CommandIDs.kill, {
      label: args => (args['sandbox'] === undefined ? 'Kill Sandbox…' : 'Kill…'),
      caption: 'End the sandbox and delete its files',
      icon: killIcon,
      describedBy: describedBy(),
      execute: args =>
        this.act(args, 'killed', async sandbox => {
          const sure = await confirmKill(sandbox);
          if (sure) {
            await this.sandboxes.kill(sandbox.sandboxID);
          }
          return sure;
        })
    });
    this.commands.addCommand(CommandIDs.setTimeout, {
      label: args => (typeof args['timeout'] === 'number' ? formatDuration(args['timeout']) : 'Extend Time of Sandbox…'),
      caption: 'Choose how long the sandbox lives from now on',
      icon: args => (typeof args['timeout'] === 'number' ? undefined : timeIcon),
      describedBy: describedBy({ sandbox: SANDBOX_ARG, timeout: { type: 'integer', description: 'Seconds from now.' } }),
      execute: args =>
        this.act(args, 'extended', async sandbox => {
          const timeout = numberOf(args['timeout']) ?? (await askForTimeout());
          if (timeout !== null) {
            await this.sandboxes.setTimeout(sandbox.sandboxID, timeout);
          }
          return timeout !== null;
        })
    });
  }

  private registerSurroundings(): void {
    this.commands.addCommand(CommandIDs.copyId, {
      label: args => (args['sandbox'] === undefined ? 'Copy Sandbox Id' : 'Copy Id'),
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
      label: 'Refresh the List of Sandboxes',
      icon: refreshIcon,
      describedBy: describedBy({}),
      execute: () => this.sandboxes.refresh()
    });
    this.commands.addCommand(CommandIDs.showIsolation, {
      label: 'Show Isolation of Sandboxes',
      caption: 'What keeps sandboxes in on this machine',
      icon: shieldIcon,
      describedBy: describedBy({}),
      execute: async () => {
        if (this.sandboxes.info === null) {
          await this.sandboxes.refresh();
        }
        await showIsolation(this.sandboxes.info);
      }
    });
  }

  private async act(
    args: Args,
    done: string,
    work: (sandbox: ISandbox) => Promise<boolean | void>
  ): Promise<void> {
    const sandbox = await this.target(args);
    if (sandbox === null) {
      return;
    }
    try {
      if ((await work(sandbox)) !== false) {
        Notification.success(`${displayName(sandbox)} is ${done}.`, { autoClose: 3000 });
      }
    } catch (reason) {
      Notification.error(`${displayName(sandbox)} could not be ${done}. ${sentenceOf(reason)}`);
    }
  }

  private offerCreate(): void {
    Notification.info('There are no sandboxes yet.', {
      autoClose: 6000,
      actions: [
        {
          label: 'Create one',
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

/** Short where the sandbox is plain, whole in the palette. */
function labelled(verb: string): (args: Args) => string {
  return args => (args['sandbox'] === undefined ? `${verb} Sandbox` : verb);
}

export function stringOf(value: unknown): string | undefined {
  return typeof value === 'string' && value !== '' ? value : undefined;
}

export function numberOf(value: unknown): number | undefined {
  return typeof value === 'number' ? value : undefined;
}

import { Notification } from '@jupyterlab/apputils';
import type { Contents, ServerConnection } from '@jupyterlab/services';

import { formatBytes } from '../../components/format';
import { basename } from '../../components/files/paths';
import { trans } from '../../components/translation';
import { isAbort } from '../../components/files/upload';
import type { CopyBody } from '../../protocol/api';
import { messageOf } from '../../protocol/errors';
import { displayName } from '../../protocol/sandboxes';
import { notifyError } from '../notifications';
import { ProgressNotification } from '../progressNotification';
import type { Sandboxes } from '../sandboxes';
import { addressOf } from './addresses';
import type { Ask } from './conflicts';
import { resolveConflicts } from './conflicts';
import type { ICopyFailure, ICopyJob, ICopyOptions, ICopyProgress } from './copyTree';
import { checkedName, planCopy, runCopy } from './copyTree';
import type { ICopyEntry, ICopyPlace } from './places';
import { ContentsPlace, SandboxPlace } from './places';
import type { CopyResult } from './serverCopy';
import { copyOnServer } from './serverCopy';

/** Milliseconds before a copy is shown. */
const SHOW_DELAY = 600;
/** JupyterLab's drives of notebook files: its own, and that of shared editing. */
const SERVER_DRIVES: readonly string[] = ['', 'RTC'];

/** Copies files and folders between JupyterLab's files and sandboxes, and between sandboxes. */
export class Copies {
  constructor(
    private readonly contents: Contents.IManager,
    private readonly settings: ServerConnection.ISettings,
    private readonly sandboxes: Sandboxes,
    private readonly ask: Ask,
    private readonly onCopied: (directory: string) => void
  ) {}

  /** Whether JupyterLab itself cannot bring something from one path to the other. */
  isForeign(path: string, directory: string): boolean {
    return addressOf(path).place !== addressOf(directory).place;
  }

  /** Copies into a directory, with progress and a button that cancels; tells the user how it ended. */
  async copyInto(paths: readonly string[], directory: string): Promise<void> {
    const what = paths.length === 1 ? basename(paths[0] ?? '') : trans.__('%1 items', paths.length);
    const shown = new ProgressNotification(SHOW_DELAY);
    const onProgress = (progress: ICopyProgress) => {
      shown.update(() => described(what, progress));
    };
    try {
      const target = addressOf(directory);
      const targetPlace = this.placeOf(directory);
      const sourcePlace = this.placeOf(paths[0] ?? '');
      const entries = await found(sourcePlace, paths);
      const jobs = await resolveConflicts(entries, targetPlace, target.path, this.ask);
      if (jobs === null || jobs.length === 0) {
        return;
      }
      const options = { signal: shown.signal, onProgress };
      const { failures, links } = this.isOnServer(paths[0] ?? '') && this.isOnServer(directory)
        ? await copyOnServer(this.sandboxes.api, this.onServer(paths[0] ?? '', directory, jobs), options)
        : await copyInPage(sourcePlace, targetPlace, jobs, options);
      this.tell(jobs.map(({ entry }) => entry.name), directory, failures, links);
    } catch (reason) {
      if (!isAbort(reason)) {
        notifyError(trans.__('Nothing more was copied. %1', messageOf(reason)));
      }
    } finally {
      shown.end();
      this.onCopied(directory);
    }
  }

  /** Whether the Jupyter server has the files, not a drive of another extension. */
  private isOnServer(path: string): boolean {
    return addressOf(path).sandboxId !== null || SERVER_DRIVES.includes(this.contents.driveName(path));
  }

  private onServer(from: string, directory: string, jobs: readonly ICopyJob[]): CopyBody {
    const [source, target] = [addressOf(from).sandboxId, addressOf(directory).sandboxId];
    const local = (sandboxId: string | null, path: string) => (sandboxId === null ? this.contents.localPath(path) : path);
    return {
      sourceSandboxID: source,
      targetSandboxID: target,
      jobs: jobs.map(job => ({ source: local(source, job.entry.path), target: local(target, job.target) })),
      existing: 'replace'
    };
  }

  private placeOf(path: string): ICopyPlace {
    const { sandboxId } = addressOf(path);
    return sandboxId === null
      ? new ContentsPlace(this.contents, this.settings)
      : new SandboxPlace(this.sandboxes.transport(sandboxId));
  }

  private tell(names: readonly string[], directory: string, failures: readonly ICopyFailure[], links: number): void {
    const [first] = failures;
    const what = names.length === 1 ? (names[0] ?? '') : trans.__('%1 items', names.length);
    if (first !== undefined) {
      const count = failures.length;
      notifyError(
        count === 1
          ? trans.__('%1 was not copied. %2', first.name, first.message)
          : trans.__('%1 files were not copied. The first is %2: %3', count, first.name, first.message)
      );
      return;
    }
    const left = links === 0 ? '' : ` ${trans.__('Links to folders were left out: %1.', links)}`;
    Notification.success(trans.__('%1 copied to %2.', what, this.nameOf(directory)) + left, { autoClose: 4000 });
  }

  private nameOf(directory: string): string {
    const { sandboxId } = addressOf(directory);
    if (sandboxId === null) {
      return directory === '' ? trans.__('the notebook files') : basename(directory);
    }
    const sandbox = this.sandboxes.find(sandboxId);
    return sandbox === undefined ? sandboxId : displayName(sandbox);
  }
}

/** Carries the bytes through the page, for files that the server does not have. */
async function copyInPage(source: ICopyPlace, target: ICopyPlace, jobs: readonly ICopyJob[], options: ICopyOptions): Promise<CopyResult> {
  const plan = await planCopy(source, jobs, options.signal);
  return { failures: await runCopy(source, target, plan, options), links: plan.links.length };
}

async function found(place: ICopyPlace, paths: readonly string[]): Promise<readonly ICopyEntry[]> {
  const entries: ICopyEntry[] = [];
  for (const path of paths) {
    const entry = await place.find(addressOf(path).path);
    if (entry === null) {
      throw new Error(trans.__('%1 is not there any more.', basename(path)));
    }
    // A link that the user chose is followed; the name is that of the link.
    const kind = entry.kind === 'file' ? 'file' : 'directory';
    entries.push({ ...entry, kind, name: checkedName(basename(path)) });
  }
  return entries;
}

/** The text and progress of a copy for the notification. */
function described(what: string, { files, allFiles, bytes, allBytes }: ICopyProgress): { message: string; progress: number } {
  const size = trans.__('%1 of %2', formatBytes(bytes), formatBytes(allBytes));
  const count = allFiles > 1 ? `, ${trans.__('%1 of %2 files', files, allFiles)}` : '';
  return {
    message: `${trans.__('Copying %1', what)}: ${size}${count}`,
    progress: allBytes > 0 ? bytes / allBytes : allFiles > 0 ? files / allFiles : 0
  };
}

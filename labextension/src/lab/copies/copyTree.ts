import { trans } from '../../components/translation';
import { isAbort } from '../../components/files/upload';
import type { CopyFailure, CopyProgress } from '../../protocol/api';
import { messageOf, SandboxError } from '../../protocol/errors';
import type { ICopyEntry, ICopyPlace } from './places';

/** The most entries that one copy may have: code in a sandbox decides how many there are. */
const MAX_ENTRIES = 20_000;
const MAX_DEPTH = 100;
/** Number of files that are copied at once. */
const AT_ONCE = 3;

/** One file or directory to copy, with all that is below it. */
export interface ICopyJob {
  readonly entry: ICopyEntry;
  /** The path of the copy, with its new name. */
  readonly target: string;
}

/** The entries to be copied: directories before what is in them. */
export interface ICopyPlan {
  readonly directories: readonly string[];
  readonly files: readonly ICopyJob[];
  readonly bytes: number;
  /** Links to directories, which are not followed. */
  readonly links: readonly string[];
}

export type ICopyProgress = CopyProgress;

/** A file that was not copied, and why. */
export type ICopyFailure = CopyFailure;

export interface ICopyOptions {
  readonly signal: AbortSignal;
  readonly onProgress?: (progress: ICopyProgress) => void;
}

/** Lists what is below the jobs; throws `resource_exhausted` if that is too much for a copy by the page. */
export async function planCopy(source: ICopyPlace, jobs: readonly ICopyJob[], signal: AbortSignal): Promise<ICopyPlan> {
  const plan = { directories: [] as string[], files: [] as ICopyJob[], bytes: 0, links: [] as string[] };
  const visit = async (job: ICopyJob, depth: number): Promise<void> => {
    signal.throwIfAborted();
    if (plan.files.length + plan.directories.length >= MAX_ENTRIES || depth > MAX_DEPTH) {
      throw new SandboxError(
        'resource_exhausted',
        trans.__('There are more than %1 files and folders, or folders nested too deep; pack them in a terminal first.', MAX_ENTRIES)
      );
    }
    if (job.entry.kind === 'file') {
      plan.files.push(job);
      plan.bytes += job.entry.size;
    } else if (job.entry.kind === 'link to a directory') {
      plan.links.push(job.entry.path);
    } else {
      plan.directories.push(job.target);
      for (const entry of await source.list(job.entry.path)) {
        await visit({ entry, target: `${job.target}/${checkedName(entry.name)}` }, depth + 1);
      }
    }
  };
  for (const job of jobs) {
    await visit(job, 0);
  }
  return plan;
}

/** Copies what was planned; files that fail do not stop the others. Throws an `AbortError` when cancelled. */
export async function runCopy(
  source: ICopyPlace,
  target: ICopyPlace,
  plan: ICopyPlan,
  { signal, onProgress }: ICopyOptions
): Promise<readonly ICopyFailure[]> {
  for (const directory of plan.directories) {
    signal.throwIfAborted();
    await target.makeDir(directory);
  }
  const failures: ICopyFailure[] = [];
  const sent = new Map<ICopyJob, number>();
  let files = 0;
  const report = () => {
    const bytes = [...sent.values()].reduce((sum, size) => sum + size, 0) + doneBytes;
    onProgress?.({ files, allFiles: plan.files.length, bytes, allBytes: plan.bytes });
  };
  let doneBytes = 0;
  const rest = [...plan.files];
  const copyOne = async (job: ICopyJob): Promise<void> => {
    try {
      const content = await source.read(job.entry.path, signal);
      await target.write(job.target, content, {
        signal,
        onProgress: done => {
          sent.set(job, Math.min(done, job.entry.size));
          report();
        }
      });
    } catch (reason) {
      if (isAbort(reason)) {
        throw reason;
      }
      failures.push({ name: job.entry.name, message: messageOf(reason) });
    }
    sent.delete(job);
    doneBytes += job.entry.size;
    files += 1;
    report();
  };
  const work = async (): Promise<void> => {
    for (let job = rest.shift(); job !== undefined; job = rest.shift()) {
      signal.throwIfAborted();
      await copyOne(job);
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, work));
  return failures;
}

/** The name of an entry, which code in a sandbox may have chosen; throws for one that would leave the folder. */
export function checkedName(name: string): string {
  if (name === '' || name === '.' || name === '..' || name.includes('/')) {
    throw new SandboxError('invalid_argument', trans.__('“%1” is not a file name.', name));
  }
  return name;
}

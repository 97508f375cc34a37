import { freeName } from '../files/drive';
import type { ICopyJob } from './copyTree';
import type { ICopyEntry, ICopyPlace } from './places';

/** The answer for an entry whose name is taken. */
export type Answer = 'replace' | 'keep both' | 'skip';

/** Asks what to do with one entry; `all` holds for those that follow, `null` cancels the copy. */
export type Ask = (entry: ICopyEntry, there: ICopyEntry, more: number) => Promise<{ answer: Answer; all: boolean } | null>;

/** The jobs that copy `entries` into `directory`, once the user has decided about names that are taken. */
export async function resolveConflicts(
  entries: readonly ICopyEntry[],
  target: ICopyPlace,
  directory: string,
  ask: Ask
): Promise<readonly ICopyJob[] | null> {
  const there = new Map((await target.list(directory)).map(entry => [entry.name, entry]));
  const names = new Set(there.keys());
  const jobs: ICopyJob[] = [];
  let forAll: Answer | null = null;
  for (const [at, entry] of entries.entries()) {
    const taken = there.get(entry.name);
    let name = entry.name;
    if (taken !== undefined) {
      const given: { answer: Answer; all: boolean } | null =
        forAll === null || (forAll === 'replace' && !mayReplace(entry, taken))
          ? await ask(entry, taken, conflictsAfter(entries, at, there))
          : { answer: forAll, all: true };
      if (given === null) {
        return null;
      }
      forAll = given.all ? given.answer : forAll;
      if (given.answer === 'skip') {
        continue;
      }
      name = given.answer === 'keep both' ? freeName(entry.name, names, '-Copy') : entry.name;
    }
    names.add(name);
    jobs.push({ entry, target: directory === '' ? name : `${directory.replace(/\/$/, '')}/${name}` });
  }
  return jobs;
}

/** Whether an entry can take the place of another: a file that of a file, a folder is joined with a folder. */
export function mayReplace(entry: ICopyEntry, there: ICopyEntry): boolean {
  return (entry.kind === 'file') === (there.kind === 'file');
}

function conflictsAfter(entries: readonly ICopyEntry[], at: number, there: ReadonlyMap<string, ICopyEntry>): number {
  return entries.slice(at + 1).filter(({ name }) => there.has(name)).length;
}

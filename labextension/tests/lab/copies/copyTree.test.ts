import { describe, expect, it } from 'vitest';

import { resolveConflicts } from '../../../src/lab/copies/conflicts';
import { checkedName, planCopy, runCopy } from '../../../src/lab/copies/copyTree';
import type { ICopyEntry, ICopyPlace } from '../../../src/lab/copies/places';
import { FakePlace } from './fakePlace';

const tree = () =>
  new FakePlace({ '/a': null, '/a/one.txt': '1', '/a/deep': null, '/a/deep/two.txt': '22', '/b.txt': 'bbb' });

async function copied(source: FakePlace, target: ICopyPlace, names: readonly string[], signal = new AbortController().signal) {
  const jobs = names.map(name => ({ entry: source.entry(`/${name}`), target: `/to/${name}` }));
  return runCopy(source, target, await planCopy(source, jobs, signal), { signal });
}

describe('a copy', () => {
  it('takes folders with all that is in them', async () => {
    const target = new FakePlace({ '/to': null });

    expect(await copied(tree(), target, ['a', 'b.txt'])).toEqual([]);

    expect(target.contents()).toEqual({
      '/to': null,
      '/to/a': null,
      '/to/a/deep': null,
      '/to/a/one.txt': '1',
      '/to/a/deep/two.txt': '22',
      '/to/b.txt': 'bbb'
    });
  });

  it('goes on after a file that cannot be read, and names it', async () => {
    const source = tree();
    source.unreadable.add('/a/one.txt');
    const target = new FakePlace({ '/to': null });

    expect(await copied(source, target, ['a'])).toEqual([{ name: 'one.txt', message: 'not allowed' }]);

    expect(target.contents()['/to/a/deep/two.txt']).toBe('22');
  });

  it('stops when it is cancelled', async () => {
    const controller = new AbortController();
    const source = tree();
    const target = new FakePlace({ '/to': null });
    source.onRead = () => {
      controller.abort();
    };

    await expect(copied(source, target, ['a', 'b.txt'], controller.signal)).rejects.toMatchObject({ name: 'AbortError' });

    expect(Object.keys(target.contents())).not.toContain('/to/b.txt');
  });

  it('does not follow links to folders, which may lead back', async () => {
    const source = new FakePlace({ '/a': null, '/a/loop': null });
    source.links.add('/a/loop');

    const plan = await planCopy(source, [{ entry: source.entry('/a'), target: '/to/a' }], new AbortController().signal);

    expect(plan.links).toEqual(['/a/loop']);
    expect(plan.directories).toEqual(['/to/a']);
  });

  it('refuses names that lead out of the folder', () => {
    for (const name of ['..', '.', '', 'a/../../b']) {
      expect(() => checkedName(name)).toThrow('is not a file name');
    }
    expect(checkedName('..a')).toBe('..a');
  });

  it('refuses a tree that has no end', async () => {
    const source = new FakePlace({});
    source.list = path => Promise.resolve([{ name: 'd', path: `${path}/d`, kind: 'directory', size: 0 }]);
    const entry: ICopyEntry = { name: 'd', path: '/d', kind: 'directory', size: 0 };
    const plan = planCopy(source, [{ entry, target: '/to/d' }], new AbortController().signal);
    await expect(plan).rejects.toMatchObject({ code: 'resource_exhausted' });
  });
});

describe('names that are taken', () => {
  const target = () => new FakePlace({ '/to': null, '/to/b.txt': 'old', '/to/c.txt': 'old', '/to/a': null });

  it('are asked about once for all', async () => {
    const source = new FakePlace({ '/b.txt': '1', '/c.txt': '2', '/new.txt': '3' });
    const asked: string[] = [];
    const jobs = await resolveConflicts(source.all(), target(), '/to', (entry, _, more) => {
      asked.push(`${entry.name} and ${more}`);
      return Promise.resolve({ answer: 'keep both', all: true });
    });
    expect(asked).toEqual(['b.txt and 1']);
    expect(jobs?.map(job => job.target)).toEqual(['/to/b-Copy1.txt', '/to/c-Copy1.txt', '/to/new.txt']);
  });

  it('are asked about again where a folder would take the place of a file', async () => {
    const source = new FakePlace({ '/a': null, '/b.txt': null });
    const asked: string[] = [];
    await resolveConflicts(source.all(), target(), '/to', entry => {
      asked.push(entry.name);
      return Promise.resolve({ answer: 'replace', all: true });
    });
    expect(asked).toEqual(['a', 'b.txt']);
  });

  it('end the copy when the user cancels, and leave out what is skipped', async () => {
    const source = new FakePlace({ '/b.txt': '1' });
    expect(await resolveConflicts(source.all(), target(), '/to', () => Promise.resolve(null))).toBeNull();
    const skip = () => Promise.resolve({ answer: 'skip', all: false } as const);
    expect(await resolveConflicts(source.all(), target(), '/to', skip)).toEqual([]);
  });
});

import { describe, expect, it } from 'vitest';

import { changesIn, changeTree, directoriesOf, visibleNodes } from '../../src/components/files/changeTree';
import { MAX_TEXT, textOf } from '../../src/components/files/fileText';
import { lineChanges } from '../../src/components/files/lineChanges';
import { entriesText, entryTime, matchingEntries } from '../../src/components/logText';
import { commandLine, processTree } from '../../src/components/processTree';
import type { IChange, ILogEntry, IProcess } from '../../src/protocol/observations';

describe('a log', () => {
  const entries: ILogEntry[] = [
    { timestamp: '2026-01-01T10:00:00.005Z', message: 'Sandbox started', level: 'info', fields: { tier: 'landlock' } },
    { timestamp: 'never', message: 'Memory is short', level: 'warn' },
    { timestamp: '2026-01-01T10:00:02Z', message: 'strange', level: 'fatal' as 'error' }
  ];

  it('is filtered by every word, in messages and fields, and by level', () => {
    expect(matchingEntries(entries, 'STARTED land', 'debug')).toEqual([entries[0]]);
    expect(matchingEntries(entries, '', 'warn')).toEqual([entries[1], entries[2]]);
    expect(matchingEntries(entries, 'nothing', 'debug')).toEqual([]);
  });

  it('is copied as lines', () => {
    expect(entriesText(entries.slice(0, 2))).toBe(
      '2026-01-01T10:00:00.005Z INFO Sandbox started tier=landlock\nnever WARN Memory is short'
    );
  });

  it('shows the time of day, or none for a time that is none', () => {
    expect(entryTime('2026-01-01T10:00:00.005Z')).toMatch(/^\d\d:00:00\.005$/);
    expect(entryTime('never')).toBe('');
  });
});

describe('the tree of changes', () => {
  const change = (path: string, kind: IChange['change'] = 'added'): IChange => ({ path, change: kind, type: 'file', size: 1, changed_us: 0 });

  it('is limited to a directory', () => {
    const all = [change('/srv'), change('/srv/a'), change('/srv2/b')];
    expect(changesIn(all, '/srv/').map(({ path }) => path)).toEqual(['/srv', '/srv/a']);
    expect(changesIn(all, '')).toBe(all);
    expect(changesIn(all, '/')).toBe(all);
  });

  it('has directories first, and one node for directories in a row', () => {
    const tree = changeTree([change('/zoo.txt'), change('/usr/local/lib/a.py'), change('/usr/local/lib/b.py', 'changed')]);
    expect(tree.map(({ name, count }) => [name, count])).toEqual([
      ['usr/local/lib', 2],
      ['zoo.txt', 1]
    ]);
    expect(tree[0]?.children.map(({ name }) => name)).toEqual(['a.py', 'b.py']);
  });

  it('keeps a directory that changed itself apart from the one in it', () => {
    const tree = changeTree([change('/srv'), change('/srv/www/index.html')]);
    expect(visibleNodes(tree, new Set()).map(({ node, depth }) => [node.name, depth])).toEqual([
      ['srv', 1],
      ['www', 2],
      ['index.html', 3]
    ]);
    expect(tree[0]?.count).toBe(2);
  });

  it('hides what is in closed directories', () => {
    const tree = changeTree([change('/srv/a'), change('/srv/b')]);
    expect(directoriesOf(tree)).toEqual(['/srv']);
    expect(visibleNodes(tree, new Set(['/srv'])).map(({ node }) => node.path)).toEqual(['/srv']);
  });

  it('takes hostile names as they are', () => {
    const tree = changeTree([change('/__proto__/constructor'), change('/__proto__/x')]);
    expect(tree[0]?.children.map(({ name }) => name)).toEqual(['constructor', 'x']);
  });
});

describe('the change of a file', () => {
  it('has the changed lines with three around them, numbered', () => {
    const before = Array.from({ length: 20 }, (_, at) => `line ${at + 1}\n`).join('');
    const lines = lineChanges(before, before.replace('line 10\n', 'LINE 10\n')) ?? [];
    expect(lines.map(({ kind }) => kind)).toEqual(['gap', 'same', 'same', 'same', 'removed', 'added', 'same', 'same', 'same']);
    expect(lines[4]).toEqual({ kind: 'removed', text: 'line 10', before: 10, after: null });
    expect(lines[5]).toEqual({ kind: 'added', text: 'LINE 10', before: null, after: 10 });
    expect(lines[8]).toMatchObject({ before: 13, after: 13 });
  });

  it('is all of a new file, and nothing of one that is alike', () => {
    expect(lineChanges('', 'a\nb')?.map(({ kind, text }) => [kind, text])).toEqual([
      ['added', 'a'],
      ['added', 'b']
    ]);
    expect(lineChanges('a', 'a')).toEqual([]);
  });

  it('is text only where it is UTF-8 without zeros', () => {
    expect(textOf(new TextEncoder().encode('größer'))).toBe('größer');
    expect(textOf(new Uint8Array([0x61, 0]))).toBeNull();
    expect(textOf(new Uint8Array([0xff, 0xfe]))).toBeNull();
    expect(MAX_TEXT).toBe(524_288);
  });
});

describe('the tree of processes', () => {
  const process = (pid: number, parent: number | null, values: Partial<IProcess> = {}): IProcess => ({ pid, parent, started: false, ...values });
  const shape = (processes: IProcess[], order: 'pid' | 'cpu' | 'memory' = 'pid') =>
    processTree(processes, order).map(({ process: { pid }, depth }) => [pid, depth]);

  it('has children below their parents, those of unknown parents at the top', () => {
    expect(shape([process(3, 2), process(2, 1), process(9, 77), process(1, null)])).toEqual([
      [1, 1],
      [2, 2],
      [3, 3],
      [9, 1]
    ]);
  });

  it('is sorted among the children of one parent', () => {
    const processes = [process(1, null), process(2, 1, { cpuPct: 1, memoryBytes: 9 }), process(3, 1, { cpuPct: 50, memoryBytes: 1 })];
    expect(shape(processes, 'cpu').map(([pid]) => pid)).toEqual([1, 3, 2]);
    expect(shape(processes, 'memory').map(([pid]) => pid)).toEqual([1, 2, 3]);
  });

  it('ends where processes say that they are each other’s parents', () => {
    expect(shape([process(1, 2), process(2, 1)])).toEqual([
      [1, 1],
      [2, 1]
    ]);
  });

  it('has command lines that can be copied', () => {
    expect(commandLine(process(1, null, { args: ['sh', '-c', "echo 'hi'"] }))).toBe("sh -c 'echo '\\''hi'\\'''");
    expect(commandLine(process(1, null, { cmd: '/bin/bash', args: ['-l'] }))).toBe('/bin/bash -l');
    expect(commandLine(process(1, null, { name: 'kworker' }))).toBe('[kworker]');
  });
});

import { expect, it } from 'vitest';

import { basename, dirname, joinPath } from '../../../src/components/files/paths';

it('takes a path apart and puts it together', () => {
  expect(['/', '/a', '/a/b.txt'].map(basename)).toEqual(['', 'a', 'b.txt']);
  expect(['/', '/a', '/a/b.txt'].map(dirname)).toEqual(['/', '/', '/a']);
  expect([joinPath('/', 'a'), joinPath('/a', 'b')]).toEqual(['/a', '/a/b']);
});

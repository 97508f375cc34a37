import { describe, expect, it } from 'vitest';

import { splitPath } from '../../../src/lab/files/driveModel';

describe('paths of the drive', () => {
  it('finds the sandbox in the first part of a path', () => {
    expect(splitPath('')).toEqual({ sandboxId: '', path: '/' });
    expect(splitPath('id1')).toEqual({ sandboxId: 'id1', path: '/' });
    expect(splitPath('id1/home/a b.txt')).toEqual({ sandboxId: 'id1', path: '/home/a b.txt' });
  });
});

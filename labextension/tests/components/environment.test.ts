import { describe, expect, it } from 'vitest';

import { parseEnvironment } from '../../src/components/environment';

describe('variables in lines', () => {
  it('are names and values, with comments, quotes and export as in a shell', () => {
    expect(parseEnvironment('A=1\n\n# note\nexport URL="http://x/?a=b"\nEMPTY=\n')).toEqual({ A: '1', URL: 'http://x/?a=b', EMPTY: '' });
  });

  it('name the first line that is none', () => {
    expect(() => parseEnvironment('A=1\nnot one')).toThrow('not one');
    expect(() => parseEnvironment('1A=2')).toThrow('1A=2');
  });
});

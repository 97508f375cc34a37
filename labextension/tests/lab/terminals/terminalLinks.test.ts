import { describe, expect, it } from 'vitest';

import { linkedTerminal, terminalLink, withoutLink } from '../../../src/lab/terminals/terminalLinks';

const LAB = 'http://localhost:8888/user/a%40b/lab?reset=1#x';

describe('the link of a terminal', () => {
  it.each([true, false])('names sandbox, process and whether it is watched only (%s)', readOnly => {
    const link = terminalLink(LAB, { sandbox: 'i1', pid: 12, readOnly });

    expect(new URL(link).pathname).toBe('/user/a%40b/lab');
    expect(linkedTerminal(new URL(link).search)).toEqual({ sandbox: 'i1', pid: 12, readOnly });
  });

  it('is taken out of an address', () => {
    expect(withoutLink(`${LAB.split('#')[0]}&sbx-terminal=i1:2&sbx-watch=1`)).toBe(LAB.split('#')[0]);
  });

  it.each(['', '?sbx-terminal=', '?sbx-terminal=i1', '?sbx-terminal=i1:0', '?sbx-terminal=../x:1', '?sbx-terminal=i1:-1'])(
    'is none in %s',
    search => {
      expect(linkedTerminal(search)).toBeNull();
    }
  );
});

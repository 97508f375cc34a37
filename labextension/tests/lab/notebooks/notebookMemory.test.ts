import { describe, expect, it, vi } from 'vitest';

import { parseCellLink, showCellLine } from '../../../src/lab/notebooks/cellLinks';
import { parseMemory, recoveryCode } from '../../../src/lab/notebooks/notebookMemory';

const GOOD = { sandbox: 'abcdefgh12345678', template: 'code-interpreter-v1', snapshot: null, name: 'box' };

describe('what a notebook remembers', () => {
  it('is read from what the magics send', () => {
    expect(parseMemory(GOOD)).toEqual(GOOD);
    expect(parseMemory({ ...GOOD, snapshot: 'snap-1:default' })?.snapshot).toBe('snap-1:default');
  });

  it.each([
    null,
    'text',
    { ...GOOD, sandbox: 'abcdefgh\nimport os' },
    { ...GOOD, sandbox: 'abcdefgh; rm' },
    { ...GOOD, template: '--env x' },
    { ...GOOD, template: 'a\nb' },
    { ...GOOD, snapshot: 'a b' },
    { ...GOOD, name: 'a\u0000b' },
    { sandbox: 'abcdefgh12345678' }
  ])('is nothing that could become other code: %o', value => {
    expect(parseMemory(value)).toBeUndefined();
  });

  it('becomes one line of a magic', () => {
    expect(recoveryCode(GOOD, 'reconnect')).toBe('%load_ext sbx_jupyter\n%sbx use abcdefgh12345678');
    expect(recoveryCode({ ...GOOD, snapshot: 's1' }, 'restore')).toContain('%sbx restore s1');
    expect(recoveryCode(GOOD, 'recreate')).toContain('%sbx create --template code-interpreter-v1');
  });
});

describe('a link to a line of a cell', () => {
  it('names both', () => {
    expect(parseCellLink('#sbx-cell=12&line=3')).toEqual({ cell: 12, line: 3 });
    expect(parseCellLink('#sbx-cell=x&line=3')).toBeUndefined();
  });

  it('moves the cursor there', async () => {
    const setCursorPosition = vi.fn();
    const cell = (executionCount: number) => ({
      model: { executionCount },
      editor: { setCursorPosition, focus: vi.fn() }
    });
    const content = {
      widgets: [cell(4), cell(12)],
      activeCellIndex: 0,
      mode: 'command',
      scrollToItem: () => Promise.resolve()
    };

    showCellLine({ content }, '#sbx-cell=12&line=3');
    await Promise.resolve();
    await Promise.resolve();

    expect(content.activeCellIndex).toBe(1);
    expect(content.mode).toBe('edit');
    expect(setCursorPosition).toHaveBeenCalledWith({ line: 2, column: 0 });
  });
});

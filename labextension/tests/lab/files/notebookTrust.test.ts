import { describe, expect, it } from 'vitest';

import { NotebookTrust } from '../../../src/lab/files/notebookTrust';

const STATE = { 'application/vnd.jupyter.widget-state+json': { state: { one: { state: { _esm: 'attack()' } } } } };

function hostile(): Record<string, unknown> {
  return {
    cells: [
      { cell_type: 'code', metadata: { trusted: true, tags: ['kept'] }, outputs: [{ output_type: 'display_data' }] },
      { cell_type: 'markdown', metadata: { trusted: true } },
      'not a cell',
      { cell_type: 'code', metadata: 'not metadata' }
    ],
    metadata: { widgets: STATE, kernelspec: { name: 'python3' } },
    nbformat: 4
  };
}

describe('the trust of notebooks from sandboxes', () => {
  it('is not taken from the notebook itself', () => {
    const opened = new NotebookTrust().opened('a.ipynb', hostile());
    expect(JSON.stringify(opened)).not.toContain('trusted');
    expect(opened).toMatchObject({ cells: [{ metadata: { tags: ['kept'] } }, {}, 'not a cell', {}] });
  });

  it('is not written either', () => {
    expect(JSON.stringify(new NotebookTrust().saved('a.ipynb', hostile()))).not.toContain('trusted');
  });

  it('does not let widget state into the page, and loses none of it', () => {
    const trust = new NotebookTrust();
    const opened = trust.opened('a.ipynb', hostile()) as Record<string, unknown>;
    expect(JSON.stringify(opened)).not.toContain('_esm');
    expect(trust.saved('a.ipynb', opened)).toMatchObject({ metadata: { widgets: STATE } });
    trust.renamed('a.ipynb', 'b.ipynb');
    expect(trust.saved('b.ipynb', opened)).toMatchObject({ metadata: { widgets: STATE } });
    expect(JSON.stringify(trust.saved('a.ipynb', opened))).not.toContain('_esm');
  });

  it('writes the widget state that the page has instead of the old one', () => {
    const trust = new NotebookTrust();
    trust.opened('a.ipynb', hostile());
    const saved = trust.saved('a.ipynb', { cells: [], metadata: { widgets: { newer: 1 } } });
    expect(saved).toMatchObject({ metadata: { widgets: { newer: 1 } } });
  });

  it('forgets the state of a notebook that has none any more', () => {
    const trust = new NotebookTrust();
    trust.opened('a.ipynb', hostile());
    trust.opened('a.ipynb', { cells: [], metadata: {} });
    expect(trust.saved('a.ipynb', { cells: [], metadata: {} })).toEqual({ cells: [], metadata: {} });
  });

  it.each([null, 7, 'text', [], { cells: 'no list' }])('passes on what is no notebook: %j', value => {
    expect(new NotebookTrust().opened('a.ipynb', value)).toEqual(value);
    expect(new NotebookTrust().saved('a.ipynb', value)).toEqual(value);
  });
});

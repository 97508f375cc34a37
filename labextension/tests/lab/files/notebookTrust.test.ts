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

const VEGA = 'application/vnd.vega.v5+json';
const SPECIFICATION = { data: [{ name: 'stolen', url: '/api/contents/notes.txt?content=1' }] };

function drawing(...outputs: unknown[]): Record<string, unknown> {
  return { cells: [{ cell_type: 'code', metadata: {}, outputs }], metadata: {}, nbformat: 4 };
}

function display(data: unknown, metadata: unknown = {}): Record<string, unknown> {
  return { output_type: 'display_data', data, metadata };
}

/** The formats of each output as the page gets them. */
function shownIn(notebook: unknown): unknown[] {
  const { cells } = notebook as { cells: { outputs: { data: unknown }[] }[] };
  return cells.flatMap(({ outputs }) => outputs.map(({ data }) => data));
}

describe('the outputs of notebooks from sandboxes', () => {
  it.each([
    VEGA,
    'application/vnd.vegalite.v3+json',
    'application/vnd.vegalite.v5+json',
    'application/geo+json',
    'application/vnd.plotly.v1+json',
    'application/vnd.sbx.direct+json',
    'text/vnd.mermaid',
    'Text/HTML',
    '__proto__'
  ])('do not bring %s into the page, and lose none of it', type => {
    const saved = JSON.parse(JSON.stringify(drawing(display({ 'text/plain': 'chart', other: 1 })))
      .replace('"other"', JSON.stringify(type))) as unknown;
    const trust = new NotebookTrust();
    const opened = trust.opened('a.ipynb', saved);
    expect(shownIn(opened)).toEqual([{ 'text/plain': 'chart' }]);
    expect(JSON.stringify(trust.saved('a.ipynb', opened))).toBe(JSON.stringify(saved));
  });

  it('say so where nothing else is left to draw', () => {
    const saved = drawing(display({ [VEGA]: SPECIFICATION }, { [VEGA]: { embed_options: {} } }));
    const trust = new NotebookTrust();
    const opened = trust.opened('a.ipynb', saved);
    expect(shownIn(opened)).toEqual([{ 'text/plain': expect.stringContaining(VEGA) as string }]);
    expect(trust.saved('a.ipynb', opened)).toEqual(saved);
  });

  it('are left as they are where JupyterLab itself draws them', () => {
    const data = { 'text/html': '<b>x</b>', 'image/png': 'AA==', 'image/svg+xml': '<svg/>', 'application/json': {} };
    const saved = drawing(display(data), { output_type: 'stream', name: 'stdout', text: 'x' }, 'no output', display(7));
    expect(new NotebookTrust().opened('a.ipynb', saved)).toEqual(saved);
  });

  it('are written as they are when a kernel added them to the open notebook', () => {
    const added = drawing(display({ [VEGA]: SPECIFICATION }));
    expect(new NotebookTrust().saved('a.ipynb', added)).toEqual(added);
  });

  it('keep their formats in a cell that was moved or copied to another notebook', () => {
    const saved = drawing(display({ [VEGA]: SPECIFICATION }));
    const opened = new NotebookTrust().opened('a.ipynb', saved);
    expect(new NotebookTrust().saved('b.ipynb', opened)).toEqual(saved);
    const again = new NotebookTrust().opened('b.ipynb', opened);
    expect(again).toEqual(opened);
  });

  it.each([7, { data: 7 }, { data: { [VEGA]: SPECIFICATION } }])('draw nothing by a forged record %j', held => {
    const opened = new NotebookTrust().opened('a.ipynb', drawing(display({ 'text/plain': 'x' }, { sbx_held: held })));
    expect(shownIn(opened)).toEqual([{ 'text/plain': 'x' }]);
  });
});

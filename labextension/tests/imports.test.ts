/// <reference types="vite/client" />
import { describe, expect, it } from 'vitest';

const sources = import.meta.glob<string>('../src/**/*.{ts,tsx}', { query: '?raw', import: 'default', eager: true });

/** Which folders a folder may import from, besides itself. */
const ALLOWED: Readonly<Record<string, readonly string[]>> = {
  protocol: [],
  components: ['protocol'],
  lab: ['protocol', 'components'],
  widget: ['protocol', 'components'],
  frame: ['protocol']
};

/** A module's name: its folder and file, `components/dom`. */
const nameOf = (path: string): string => path.replace('../src/', '').replace(/\.tsx?$/, '');

/** The modules of ours that each module imports, types included. */
const graph = new Map(
  Object.entries(sources).map(([path, text]) => {
    const from = new URL(path.slice(2), 'file:///');
    const imports = [...text.matchAll(/from '(\.[^']*)'/g)].map(match => new URL(match[1] ?? '', from).pathname);
    return [nameOf(path), imports.map(name => name.replace('/src/', ''))] as const;
  })
);

function findCycle(name: string, path: readonly string[], done: Set<string>): readonly string[] | null {
  if (path.includes(name)) {
    return [...path.slice(path.indexOf(name)), name];
  }
  if (done.has(name)) {
    return null;
  }
  for (const next of graph.get(name) ?? []) {
    const cycle = findCycle(next, [...path, name], done);
    if (cycle !== null) {
      return cycle;
    }
  }
  done.add(name);
  return null;
}

describe('imports', () => {
  it('are found', () => {
    expect(graph.get('components/terminals/terminalView')).toContain('components/terminals/terminalSession');
  });

  it('go from a folder only to those below it', () => {
    const wrong = [...graph].flatMap(([name, imports]) => {
      const [folder = ''] = name.split('/');
      return imports
        .filter(target => ![folder, ...(ALLOWED[folder] ?? [])].includes(target.split('/')[0] ?? ''))
        .filter(target => !target.endsWith('.css'))
        .map(target => `${name} imports ${target}`);
    });
    expect(wrong).toEqual([]);
  });

  it('form no cycle', () => {
    const done = new Set<string>();
    const cycles = [...graph.keys()].map(name => findCycle(name, [], done)).filter(cycle => cycle !== null);
    expect(cycles).toEqual([]);
  });
});

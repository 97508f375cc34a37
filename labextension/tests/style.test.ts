/// <reference types="vite/client" />
import { describe, expect, it } from 'vitest';

// The rules of docs/design.md that a program can check.

const files = import.meta.glob<string>('../style/*.{css,js}', { query: '?raw', import: 'default', eager: true });
const text = (name: string): string => files[`../style/${name}`] ?? '';
const sheets = Object.keys(files)
  .map(path => path.replace('../style/', ''))
  .filter(name => !name.startsWith('index.'));
const rules = sheets.flatMap(name =>
  [...text(name).replace(/\/\*[^]*?\*\//g, '').matchAll(/([^{}]+)\{([^{}]*)\}/g)].map(([, selector = '', body = '']) => ({
    selector: selector.trim(),
    body
  }))
);

/** The text without `var(…)`, whose fallbacks are for pages without JupyterLab. */
function withoutVariables(body: string): string {
  const shorter = body.replace(/var\([^()]*\)/g, '');
  return shorter === body ? body : withoutVariables(shorter);
}

describe('the style sheets', () => {
  it('are all loaded, by either way', () => {
    expect(rules.length).toBeGreaterThan(100);
    for (const index of ['index.css', 'index.js']) {
      expect(sheets.filter(name => !text(index).includes(name))).toEqual([]);
    }
  });

  it('keep distances on the grid of 4 pixels', () => {
    const off = rules.filter(({ body }) =>
      [...body.matchAll(/(?:^|[\s;])(?:padding|margin|gap)[a-z-]*:([^;]*)/g)]
        .flatMap(([, value = '']) => [...value.matchAll(/(-?\d+)px/g)])
        // Half a step, where there is no room for one.
        .some(([, pixels]) => Number(pixels) !== 2 && Number(pixels) % 4 !== 0)
    );
    expect(off.map(({ selector }) => selector)).toEqual([]);
  });

  it('take colours from the theme', () => {
    // A page of a sandbox expects paper; the warning of an unsafe widget stands outside of every theme.
    const allowed = ['.sbx-PortPage iframe', '.sbx-OutputFrame', '.sbx-Widget-warning'];
    const named = rules.filter(({ body }) => /#[\da-f]{3,8}\b|\brgba?\(/i.test(withoutVariables(body)));
    expect(named.map(({ selector }) => selector).filter(selector => !allowed.includes(selector))).toEqual([]);
  });
});

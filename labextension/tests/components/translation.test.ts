/// <reference types="vite/client" />
import { afterEach, describe, expect, it } from 'vitest';

import { setTranslation, trans } from '../../src/components/translation';

describe('messages', () => {
  afterEach(() => {
    setTranslation({ __: (text, ...values) => text.replace(/%(\d)/g, (_, number) => String(values[Number(number) - 1])) });
  });

  it('fills in its values and leaves a mark without one', () => {
    expect(trans.__('%1 of %2, %3', 1, 2)).toBe('1 of 2, %3');
  });

  it('are in the language of the page once it is known', () => {
    setTranslation({ __: (text, ...values) => `<${text}|${values.join()}>` });
    expect(trans.__('%1 of %2', 1, 2)).toBe('<%1 of %2|1,2>');
  });

  it('are written out where they are used, so that the catalogue has them', () => {
    const sources = import.meta.glob<string>('../../src/**/*.{ts,tsx}', { query: '?raw', import: 'default', eager: true });
    const calls = Object.values(sources).flatMap(source => [...source.matchAll(/trans\.__\(\s*(.)/g)].map(([, first]) => first));
    expect(calls.length).toBeGreaterThan(300);
    expect(calls.filter(first => !`'"\``.includes(first ?? ''))).toEqual([]);
  });
});

import { describe, expect, it } from 'vitest';

import { Listings } from '../../../src/lab/files/listings';
import type { IEntryInfo } from '../../../src/protocol/runtime';

const many: IEntryInfo[] = Array.from({ length: 5000 }, (_, number) => ({
  name: `file-${String(number).padStart(4, '0')}`,
  path: `/d/${number}`,
  type: number === 4999 ? 'FILE_TYPE_DIRECTORY' : 'FILE_TYPE_FILE'
}));

describe('the listing of a large directory', () => {
  it('is cut, with folders first', () => {
    const listings = new Listings();
    const shown = listings.cut('d', many);
    expect(shown.length).toBe(1000);
    expect(shown.slice(0, 2).map(({ name }) => name)).toEqual(['file-4999', 'file-0000']);
    expect(listings.get('d')).toEqual({ shown: 1000, matching: 5000, all: 5000, filter: '' });
  });

  it('shows more on request, of that directory only', () => {
    const listings = new Listings();
    const asked: string[] = [];
    listings.changed.connect((_, path) => asked.push(path));
    listings.showMore('d');
    expect(asked).toEqual(['d']);
    expect(listings.cut('d', many).length).toBe(2000);
    expect(listings.cut('e', many).length).toBe(1000);
  });

  it('filters all entries, not only those that are shown', () => {
    const listings = new Listings();
    listings.filter('d', 'FILE-49');
    expect(listings.cut('d', many).length).toBe(100);
    expect(listings.get('d')).toMatchObject({ matching: 100, all: 5000 });
  });

  it('leaves a small directory as it is', () => {
    const few = many.slice(0, 3);
    expect(new Listings().cut('d', few)).toBe(few);
  });
});

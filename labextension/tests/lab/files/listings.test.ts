import { describe, expect, it } from 'vitest';

import { Listings } from '../../../src/lab/files/listings';
import type { IEntryInfo } from '../../../src/protocol/runtime';

const entries: IEntryInfo[] = [
  { name: 'a', path: '/d/a', type: 'FILE_TYPE_FILE' },
  { name: 'l', path: '/d/l', type: 'FILE_TYPE_FILE', symlinkTarget: '/etc/passwd' }
];

describe('the listing of a large directory', () => {
  it('asks for the first thousand, and remembers how many there are', () => {
    const listings = new Listings();
    expect(listings.wanted('d')).toMatchObject({ limit: 1000, filter: '' });
    expect(listings.note('d', { entries, total: 5000, matching: 4000 }, 'x')).toBe(entries);
    expect(listings.get('d')).toEqual({ shown: 2, matching: 4000, all: 5000, filter: 'x' });
    expect(listings.get('e')).toBeUndefined();
    expect([...listings.links]).toEqual([['l', '/etc/passwd']]);
  });

  it('shows more on request, of that directory only', () => {
    const listings = new Listings();
    const asked: string[] = [];
    listings.changed.connect((_, path) => asked.push(path));
    listings.showMore('d');
    expect(asked).toEqual(['d']);
    expect(listings.wanted('d').limit).toBe(2000);
    expect(listings.wanted('e').limit).toBe(1000);
  });

  it('filters by the server, and begins anew', () => {
    const listings = new Listings();
    listings.showMore('d');
    listings.filter('d', 'FILE-49');
    expect(listings.wanted('d')).toMatchObject({ filter: 'FILE-49', limit: 1000 });
  });
});

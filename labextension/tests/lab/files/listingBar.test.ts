import type { FileBrowserModel } from '@jupyterlab/filebrowser';
import { Signal } from '@lumino/signaling';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import { ListingBar } from '../../../src/lab/files/listingBar';
import { Listings } from '../../../src/lab/files/listings';
import { enter } from '../../userEvents';

function setUp() {
  const model = { path: 'd', manager: { services: { contents: { localPath: (path: string) => path } } }, refresh: vi.fn() };
  const pathChanged = new Signal<object, void>(model);
  const signals = { pathChanged, refreshed: new Signal<object, void>(model) };
  const listings = new Listings();
  const bar = new ListingBar(Object.assign(model, signals) as unknown as FileBrowserModel, listings);
  const input = bar.node.querySelector('input') as HTMLInputElement;
  const go = (path: string) => {
    model.path = path;
    pathChanged.emit();
  };
  return { bar, listings, input, go };
}

describe('the filter of a large folder', () => {
  beforeEach(() => {
    vi.useFakeTimers();
  });

  afterEach(() => {
    vi.useRealTimers();
  });

  it('is shown again when the user comes back to the folder where it is in force', () => {
    const { bar, listings, input, go } = setUp();
    enter(input, 'FILE-49');
    vi.advanceTimersByTime(300);
    go('e');
    expect([input.value, listings.wanted('e').filter]).toEqual(['', '']);
    go('d');
    expect([input.value, listings.wanted('d').filter]).toEqual(['FILE-49', 'FILE-49']);
    bar.dispose();
  });

  it('is not applied to the folder that is opened while it is typed', () => {
    const { bar, listings, input, go } = setUp();
    const asked: string[] = [];
    listings.changed.connect((_, path) => asked.push(path));
    enter(input, 'x');
    go('e');
    vi.advanceTimersByTime(300);
    expect(asked).toEqual([]);
    bar.dispose();
  });
});

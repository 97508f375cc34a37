import { describe, expect, it } from 'vitest';

import { formatAge, formatBytes, formatCountdown, formatDuration } from '../../src/components/format';

describe('sizes and times', () => {
  it('shows a size in the unit that keeps it short', () => {
    expect([0, 1023, 1536, 512 * 2 ** 20, 2 ** 30].map(formatBytes)).toEqual(['0 B', '1023 B', '1.5 KiB', '512 MiB', '1 GiB']);
  });

  it('does not pretend to know a size that is none', () => {
    expect([-1, Number.NaN].map(formatBytes)).toEqual(['–', '–']);
  });

  it('leaves zeros out of a length of time', () => {
    expect([59, 60, 3600, 3725, 90000].map(formatDuration)).toEqual(['59 s', '1 min', '1 h', '1 h 2 min', '1 d 1 h']);
  });

  it('counts down like a clock below an hour and never below zero', () => {
    expect([-5, 65, 3599, 7260].map(formatCountdown)).toEqual(['0:00', '1:05', '59:59', '2 h 1 min']);
  });

  it('tells an age in one unit', () => {
    expect([5, 754, 7300].map(formatAge)).toEqual(['5 s', '12 min', '2 h']);
  });
});

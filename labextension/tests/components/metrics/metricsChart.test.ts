import { describe, expect, it } from 'vitest';

import { niceCeiling } from '../../../src/components/metrics/measures';

describe('the scale of a chart', () => {
  it('ends a scale at a round number', () => {
    expect([niceCeiling(130, true), niceCeiling(0.3, true), niceCeiling(100, false)]).toEqual([200, 0.5, 128]);
  });
});

import { describe, expect, it } from 'vitest';

import { WidgetStates } from '../../../src/lab/widgets/widgetStates';

/** A state with so many short members. */
function members(first: number, count: number): Record<string, number> {
  return Object.fromEntries(Array.from({ length: count }, (_, at) => [`m${first + at}`, 0]));
}

describe('WidgetStates', () => {
  it('keeps what messages say, with the bytes that belong to it', () => {
    const states = new WidgetStates();
    const [first, second] = [new ArrayBuffer(1), new ArrayBuffer(2)];
    states.open('a', { state: { x: 1, kept: 2 }, buffer_paths: [['image'], ['list', 0]] }, [first, second]);
    states.update('a', { state: { x: 3, image: null }, buffer_paths: [] }, []);

    expect(states.get('a')).toEqual({
      message: { state: { x: 3, kept: 2, image: null }, buffer_paths: [['list', 0]] },
      buffers: [second]
    });
  });

  it('drops a widget that grows without end, and keeps the others', () => {
    const states = new WidgetStates();
    states.open('small', { state: { x: 1 } }, []);
    states.open('large', { state: {} }, []);
    for (let count = 0; count < 20; count++) {
      states.update('large', { state: {}, buffer_paths: [[`x${count}`]] }, [new ArrayBuffer(10_000_000)]);
    }
    expect(states.has('large')).toBe(false);
    expect(states.has('small')).toBe(true);
    expect(states.open('next', { state: {}, buffer_paths: [['x']] }, [new ArrayBuffer(100_000_000)])).toBe(true);
  });

  it.each([
    ['names', (text: string) => [{ state: { [text]: 0 } }, []]],
    ['places of bytes', (text: string) => [{ state: {}, buffer_paths: [[text, text]] }, [new ArrayBuffer(0)]]]
  ])('counts the length of %s', (_, make) => {
    const states = new WidgetStates(1000);
    states.open('a', { state: {} }, []);
    for (let count = 0; count < 15; count++) {
      const [message, buffers] = make(String(count).padStart(100)) as [Record<string, unknown>, ArrayBuffer[]];
      states.update('a', message, buffers);
    }
    expect(states.has('a')).toBe(false);
  });

  it('keeps a bounded number of widgets', () => {
    const states = new WidgetStates();
    for (let count = 0; count < 10_000; count++) {
      states.open(`w${count}`, { state: {} }, []);
    }
    expect(states.open('more', { state: {} }, [])).toBe(false);
  });

  it('drops a widget with more than 10 000 members, whether one message or several bring them', () => {
    const states = new WidgetStates();
    expect(states.open('kept', { state: members(0, 10_000) }, [])).toBe(true);
    expect(states.open('at-once', { state: members(0, 10_001) }, [])).toBe(false);
    states.open('by-and-by', { state: members(0, 10_000) }, []);
    expect(states.update('by-and-by', { state: members(9_999, 2) }, [])).toBe(false);
    expect(['kept', 'at-once', 'by-and-by'].map(id => states.has(id))).toEqual([true, false, false]);
  });

  it('drops a widget with more than 10 000 buffers, also in one member', () => {
    const states = new WidgetStates();
    const places = Array.from({ length: 10_001 }, (_, at) => ['list', at]);
    const buffers = places.map(() => new ArrayBuffer(0));
    expect(states.open('a', { state: {}, buffer_paths: places }, buffers)).toBe(false);
    states.open('b', { state: {}, buffer_paths: places.slice(1) }, buffers.slice(1));
    expect(states.update('b', { state: {}, buffer_paths: [['more']] }, [new ArrayBuffer(0)])).toBe(false);
  });

  it('gives its room back when it drops a widget', () => {
    const states = new WidgetStates(1000);
    states.open('large', { state: { x: 'x'.repeat(2000) } }, []);
    states.open('wide', { state: members(0, 10_001) }, []);
    expect(states.open('small', { state: { x: 'x'.repeat(900) } }, [])).toBe(true);
  });

  it('looks at each buffer a few times only, however many members there are', () => {
    const states = new WidgetStates();
    let reads = 0;
    const places = Array.from({ length: 1_000 }, () => {
      const get = () => {
        reads += 1;
        return 'bytes';
      };
      return Object.defineProperty([''], 0, { get, enumerable: true });
    });
    const buffers = places.map(() => new ArrayBuffer(0));
    expect(states.open('a', { state: members(0, 5_000), buffer_paths: places }, buffers)).toBe(true);
    expect(reads).toBeLessThanOrEqual(10 * places.length);
  });

  it.each([undefined, 'x', [['a'], 'b'], [[]], [[{}]]])('takes no bytes at the place %o', paths => {
    const states = new WidgetStates();
    states.open('a', { state: { x: 1 }, buffer_paths: paths }, [new ArrayBuffer(1)]);
    expect(states.get('a')?.buffers).toEqual([]);
  });
});

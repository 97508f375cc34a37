import { describe, expect, it } from 'vitest';

import { WidgetStates } from '../../../src/lab/widgets/widgetStates';

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

  it.each([undefined, 'x', [['a'], 'b'], [[]], [[{}]]])('takes no bytes at the place %o', paths => {
    const states = new WidgetStates();
    states.open('a', { state: { x: 1 }, buffer_paths: paths }, [new ArrayBuffer(1)]);
    expect(states.get('a')?.buffers).toEqual([]);
  });
});

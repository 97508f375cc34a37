import { describe, expect, it } from 'vitest';

import { CapturedOutputs } from '../../../src/lab/widgets/capturedOutputs';

const message = (msg_type: string, content: object) => ({ header: { msg_type }, content }) as never;
const shown = (text: string) => message('display_data', { data: { 'text/plain': text }, metadata: {} });

describe('the outputs that a widget collects', () => {
  it('joins the text of a stream and clears when the next output comes', () => {
    const captured = new CapturedOutputs([]);
    captured.add(message('stream', { name: 'stdout', text: 'a' }));
    captured.add(message('stream', { name: 'stdout', text: 'b' }));
    captured.add(message('clear_output', { wait: true }));
    expect(captured.outputs).toEqual([{ output_type: 'stream', name: 'stdout', text: 'ab' }]);

    captured.add(shown('c'));
    expect(captured.outputs).toMatchObject([{ output_type: 'display_data', data: { 'text/plain': 'c' } }]);
  });

  it('keeps the latest, by number and by size', () => {
    const many = new CapturedOutputs([]);
    for (let count = 0; count < 600; count++) {
      many.add(shown(String(count)));
    }
    expect(many.outputs).toHaveLength(500);
    expect(many.outputs.at(-1)).toMatchObject({ data: { 'text/plain': '599' } });

    const large = new CapturedOutputs([]);
    for (let count = 0; count < 30; count++) {
      large.add(shown('x'.repeat(1024 * 1024)));
    }
    expect(large.outputs).toHaveLength(15);
  });
});

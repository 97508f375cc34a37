import { describe, expect, it } from 'vitest';

import { errorFrom, isFinal, messageOf, SandboxError, sentence } from '../../src/protocol/errors';

describe('errors', () => {
  it('carry the code and the words of the server', () => {
    expect(errorFrom({ code: 'not_found', message: 'It is gone.' }, 'other')).toMatchObject({ code: 'not_found', message: 'It is gone.' });
  });

  it.each([null, 'text', {}, { code: 3, message: '' }])('have words when the server has none: %j', body => {
    expect(errorFrom(body, 'The terminal failed.')).toMatchObject({ code: 'unknown', message: 'The terminal failed.' });
  });

  it('are final when the same request would fail again', () => {
    expect(isFinal(new SandboxError('unauthenticated', ''))).toBe(true);
    expect(isFinal(new SandboxError('unavailable', ''))).toBe(false);
  });

  it('are sentences where they stand alone, but names keep their letters', () => {
    expect(['the key is refused', 'It broke.', 'i0abc does not exist', 'work-1 is gone'].map(sentence)).toEqual([
      'The key is refused.',
      'It broke.',
      'i0abc does not exist.',
      'work-1 is gone.'
    ]);
  });

  it('are shown by their message', () => {
    expect([new Error('It broke.'), new Error(''), 'text'].map(messageOf)).toEqual(['It broke.', 'Error', 'text']);
  });
});

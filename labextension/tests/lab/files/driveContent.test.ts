import { describe, expect, it } from 'vitest';

import { bytesFromContent, contentFromBytes, toBase64 } from '../../../src/lab/files/driveContent';

describe('the content of a file', () => {
  it('gives what is not text as base64', () => {
    const content = contentFromBytes(new Uint8Array([0xff, 0xfe]), 'file', null, 'text/plain');
    expect(content).toMatchObject({ format: 'base64', mimetype: 'application/octet-stream', content: '//4=' });
  });

  it('refuses to show bytes as text', () => {
    expect(() => contentFromBytes(new Uint8Array([0xff]), 'file', 'text', 'text/plain')).toThrow('UTF-8');
  });

  it('keeps a byte order mark through opening and saving', () => {
    const original = new Uint8Array([0xef, 0xbb, 0xbf, 0x61]);
    const shown = contentFromBytes(original, 'file', 'text', 'text/plain');
    expect(bytesFromContent(shown.content, 'text')).toEqual(original);
  });

  it('encodes a megabyte without overflowing the stack', () => {
    expect(toBase64(new Uint8Array(2 ** 20))).toHaveLength(Math.ceil(2 ** 20 / 3) * 4);
  });
});

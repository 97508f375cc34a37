import { describe, expect, it } from 'vitest';

import { createFrame, frameDocument } from '../../../src/lab/widgets/frameDocument';

describe('frameDocument', () => {
  it('keeps a script inside an inner frame with an opaque origin and no network', () => {
    const document = new DOMParser().parseFromString(
      frameDocument('const a = "</script><img src=x>"; // <!-- "', 'a { b: "</style>" }'),
      'text/html'
    );
    const inner = document.querySelector('iframe');
    expect(document.querySelectorAll('script, img')).toHaveLength(0);
    expect(inner?.getAttribute('sandbox')).toBe('allow-scripts');
    const content = new DOMParser().parseFromString(inner?.getAttribute('srcdoc') ?? '', 'text/html');
    expect(content.querySelectorAll('script')).toHaveLength(1);
    expect(content.querySelectorAll('img')).toHaveLength(0);
    for (const part of [document, content]) {
      const policy = part.querySelector('meta[http-equiv]')?.getAttribute('content') ?? '';
      expect(policy).toContain("default-src 'none'");
      expect(policy).toContain("frame-src 'none'");
      expect(policy).not.toMatch(/https?:|\*|'self'/);
    }
  });

  it('makes a frame without a right of any kind but to run scripts', () => {
    const frame = createFrame('x', 'title');
    expect(frame.getAttribute('sandbox')).toBe('allow-scripts');
    expect(frame.getAttribute('allow')).toBe('');
  });
});

import { describe, expect, it } from 'vitest';

import { apiUrl } from '../../src/components/jupyterServer';

describe('addresses of the server', () => {
  it('escapes every part of an address', () => {
    expect(apiUrl('http://h/user/a%40b/', ['sandboxes', 'a/b', 'files'], { path: '/x y&z', since: undefined })).toBe(
      'http://h/user/a%40b/sbx/api/sandboxes/a%2Fb/files?path=%2Fx+y%26z'
    );
  });
});

import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import { serverFor } from '../../src/widget/sameOriginServer';

/** What the page says about its server, as a Jupyter page does. */
function configure(config: string): void {
  const script = document.createElement('script');
  script.id = 'jupyter-config-data';
  script.type = 'application/json';
  script.textContent = config;
  document.body.replaceChildren(script);
}

describe('the server of the page', () => {
  const fetched = vi.fn<typeof fetch>();

  beforeEach(() => {
    vi.stubGlobal('fetch', fetched);
    fetched.mockReset().mockResolvedValue(new Response('{}'));
  });

  afterEach(() => {
    vi.unstubAllGlobals();
    document.body.replaceChildren();
    document.cookie = '_xsrf=; expires=Thu, 01 Jan 1970 00:00:00 GMT';
  });

  it('is used when it knows the sandbox', async () => {
    configure('{"baseUrl": "/user/a"}');
    document.cookie = '_xsrf=t';
    const server = await serverFor('box');

    const [url, init] = fetched.mock.calls[0] ?? [];
    expect(url).toBe(`${window.location.origin}/user/a/sbx/api/sandboxes/box`);
    expect(new Headers(init?.headers).get('X-XSRFToken')).toBe('t');
    expect(init?.credentials).toBe('same-origin');
    expect(server?.url(['x'])).toContain('/user/a/sbx/api/x');
  });

  it('is not used when it does not know the sandbox', async () => {
    configure('{"baseUrl": "/"}');
    fetched.mockResolvedValue(new Response('', { status: 404 }));
    expect(await serverFor('box')).toBeNull();
  });

  it('is not used when it does not answer', async () => {
    configure('{"baseUrl": "/"}');
    fetched.mockRejectedValue(new TypeError('Failed to fetch'));
    expect(await serverFor('box')).toBeNull();
  });

  it.each(['{"baseUrl": "https://elsewhere.example/"}', 'no json', ''])('is not asked when the page says %j', async config => {
    configure(config);
    expect(await serverFor('box')).toBeNull();
    expect(fetched).not.toHaveBeenCalled();
  });

  it('is not asked about no sandbox', async () => {
    configure('{"baseUrl": "/"}');
    expect(await serverFor('')).toBeNull();
    expect(fetched).not.toHaveBeenCalled();
  });
});

import type { IJupyterServer, Query } from '../components/jupyterServer';
import { apiUrl } from '../components/jupyterServer';
import { answered } from '../components/responses';
import type { IUploadOptions } from '../components/files/upload';
import { postWithProgress, xsrfCookie } from '../components/files/upload';

interface IPageConfig {
  readonly baseUrl?: string;
  readonly token?: string;
}

/** Reaches the Jupyter server of the page's origin with the cookies of the page. */
class SameOriginServer implements IJupyterServer {
  constructor(private readonly base: string) {}

  url(parts: readonly string[], query?: Query): string {
    return apiUrl(this.base, parts, query);
  }

  request(parts: readonly string[], init: RequestInit = {}, query?: Query): Promise<Response> {
    const headers = new Headers(init.headers);
    const xsrf = xsrfCookie();
    if (xsrf !== undefined) {
      headers.set('X-XSRFToken', xsrf);
    }
    const whole: RequestInit = { ...init, headers, credentials: 'same-origin', cache: 'no-store' };
    return answered(fetch(this.url(parts, query), whole));
  }

  upload(
    parts: readonly string[],
    query: Query,
    body: Blob | Uint8Array<ArrayBuffer>,
    options: IUploadOptions
  ): Promise<Response> {
    const headers = new Headers({ 'Content-Type': 'application/octet-stream' });
    const xsrf = xsrfCookie();
    if (xsrf !== undefined) {
      headers.set('X-XSRFToken', xsrf);
    }
    return postWithProgress(this.url(parts, query), body, headers, options);
  }

  openSocket(parts: readonly string[], query?: Query): WebSocket {
    return new WebSocket(this.url(parts, query).replace(/^http/, 'ws'));
  }
}

/** The server of this page, if the page has the configuration of a Jupyter page. */
function sameOriginServer(): IJupyterServer | null {
  const text = document.getElementById('jupyter-config-data')?.textContent;
  if (!text) {
    return null;
  }
  try {
    const config = JSON.parse(text) as IPageConfig;
    const base = new URL(config.baseUrl ?? '/', window.location.href);
    const own = base.origin === window.location.origin;
    return own ? new SameOriginServer(base.href.endsWith('/') ? base.href : `${base.href}/`) : null;
  } catch {
    // The configuration is not Jupyter's.
    return null;
  }
}

/** The page's server if it has the `sbx/api` routes and the sandbox; `null` if the kernel must be used. */
export async function serverFor(sandboxId: string): Promise<IJupyterServer | null> {
  const server = sameOriginServer();
  if (server === null || sandboxId === '') {
    return null;
  }
  try {
    const known = await server.request(['sandboxes', sandboxId]);
    return known.ok ? server : null;
  } catch {
    // The page is from another server, or the server is stopping; the kernel may still reach the sandbox.
    return null;
  }
}

import type { IJupyterServer, Query } from '../components/jupyterServer';
import { apiUrl } from '../components/jupyterServer';
import type { IUploadOptions } from '../components/upload';
import { postWithProgress, xsrfCookie } from '../components/upload';

interface IPageConfig {
  readonly baseUrl?: string;
  readonly token?: string;
}

/** The page's own Jupyter server, reached with the cookies that the page has. */
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
    return fetch(this.url(parts, query), { ...init, headers, credentials: 'same-origin', cache: 'no-store' });
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

/** The server that served this page, when the page says that it is a Jupyter page. */
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
    // Not our page's configuration: a page that cannot be read has no server for us.
    return null;
  }
}

/** The page's server if it has our routes and knows the sandbox; `null` means use the kernel. */
export async function serverFor(sandboxId: string): Promise<IJupyterServer | null> {
  const server = sameOriginServer();
  if (server === null || sandboxId === '') {
    return null;
  }
  try {
    const known = await server.request(['sandboxes', sandboxId]);
    return known.ok ? server : null;
  } catch {
    // A page opened from elsewhere, or a server on its way down; the kernel may still reach it.
    return null;
  }
}

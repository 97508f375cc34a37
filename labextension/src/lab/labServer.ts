import { ServerConnection } from '@jupyterlab/services';

import type { IJupyterServer, Query } from '../components/jupyterServer';
import { apiUrl } from '../components/jupyterServer';
import { answered } from '../components/responses';
import type { IUploadOptions } from '../components/files/upload';
import { postWithProgress, xsrfCookie } from '../components/files/upload';

/** Reaches the Jupyter server with JupyterLab's connection settings and cookies. */
export class LabServer implements IJupyterServer {
  constructor(readonly settings: ServerConnection.ISettings) {}

  url(parts: readonly string[], query?: Query): string {
    return apiUrl(this.settings.baseUrl, parts, query);
  }

  request(parts: readonly string[], init: RequestInit = {}, query?: Query): Promise<Response> {
    return answered(ServerConnection.makeRequest(this.url(parts, query), init, this.settings));
  }

  upload(
    parts: readonly string[],
    query: Query,
    body: Blob | Uint8Array<ArrayBuffer>,
    options: IUploadOptions
  ): Promise<Response> {
    const { token } = this.settings;
    const xsrf = xsrfCookie();
    const headers = new Headers({ 'Content-Type': 'application/octet-stream' });
    if (token !== '') {
      headers.set('Authorization', `token ${token}`);
    }
    if (xsrf !== undefined) {
      headers.set('X-XSRFToken', xsrf);
    }
    return postWithProgress(this.url(parts, query), body, headers, options);
  }

  openSocket(parts: readonly string[], query: Query = {}): WebSocket {
    const { wsUrl, token, appendToken, WebSocket } = this.settings;
    // Browsers cannot send headers with a WebSocket; pages with cookies do not need the token.
    const credential = appendToken && token !== '' ? { token } : {};
    return new WebSocket(apiUrl(wsUrl, parts, { ...query, ...credential }));
  }
}

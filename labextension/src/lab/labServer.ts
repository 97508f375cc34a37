import { ServerConnection } from '@jupyterlab/services';

import type { IJupyterServer, Query } from '../components/server';
import { apiUrl } from '../components/server';

/** The Jupyter server as JupyterLab reaches it, with its settings and cookies. */
export class LabServer implements IJupyterServer {
  constructor(readonly settings: ServerConnection.ISettings) {}

  url(parts: readonly string[], query?: Query): string {
    return apiUrl(this.settings.baseUrl, parts, query);
  }

  request(parts: readonly string[], init: RequestInit = {}, query?: Query): Promise<Response> {
    return ServerConnection.makeRequest(this.url(parts, query), init, this.settings);
  }

  openSocket(parts: readonly string[], query: Query = {}): WebSocket {
    const { wsUrl, token, appendToken, WebSocket } = this.settings;
    // Browsers cannot send headers with a socket; pages with cookies never need this.
    const credential = appendToken && token !== '' ? { token } : {};
    return new WebSocket(apiUrl(wsUrl, parts, { ...query, ...credential }));
  }
}

import type { IUploadOptions } from './files/upload';

/** Sends requests and opens sockets to the `sbx/api` routes of a Jupyter server. */
export interface IJupyterServer {
  /** The URL of an `sbx/api` route; each part becomes one escaped path segment. */
  url(parts: readonly string[], query?: Query): string;
  request(parts: readonly string[], init?: RequestInit, query?: Query): Promise<Response>;
  /** Posts bytes with progress and cancellation. */
  upload(parts: readonly string[], query: Query, body: Blob | Uint8Array<ArrayBuffer>, options: IUploadOptions): Promise<Response>;
  openSocket(parts: readonly string[], query?: Query): WebSocket;
}

export type Query = Readonly<Record<string, string | number | undefined>>;

/** Joins escaped segments and a query below `base`, which ends with a slash. */
export function apiUrl(base: string, parts: readonly string[], query: Query = {}): string {
  const path = parts.map(encodeURIComponent).join('/');
  const search = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    if (value !== undefined) {
      search.set(name, String(value));
    }
  }
  const text = search.toString();
  return `${base}sbx/api/${path}${text === '' ? '' : `?${text}`}`;
}

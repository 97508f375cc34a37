import { errorFrom } from '../protocol/errors';
import type { IUploadOptions } from './upload';

/** The Jupyter server as a view may use it: requests and sockets under `sbx/api`. */
export interface IJupyterServer {
  /** The address of an `sbx/api` route; `parts` are escaped here, one path segment each. */
  url(parts: readonly string[], query?: Query): string;
  request(parts: readonly string[], init?: RequestInit, query?: Query): Promise<Response>;
  /** Posts bytes, following how many have left. */
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

/** Gives the response back, or throws what its body says went wrong. */
export async function checked(response: Response): Promise<Response> {
  if (response.ok) {
    return response;
  }
  const text = await response.text();
  let body: unknown = null;
  try {
    body = JSON.parse(text);
  } catch {
    // A proxy on the way answered with a page of its own; its status says enough.
  }
  throw errorFrom(body, `The server answered ${response.status} ${response.statusText}.`.replace(' .', '.'));
}

/** The JSON body of an answer, or what it says went wrong. */
export async function readJson<T>(response: Response): Promise<T> {
  return (await (await checked(response)).json()) as T;
}

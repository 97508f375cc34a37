import type { IJupyterServer, Query } from '../src/components/jupyterServer';
import { apiUrl } from '../src/components/jupyterServer';
import type { IUploadOptions } from '../src/components/files/upload';

/** One request, as the server sees it. */
export interface IRequest {
  readonly method: string;
  readonly url: string;
  readonly body: unknown;
}

/** A WebSocket that the test drives by hand. */
export class FakeSocket extends EventTarget {
  constructor(readonly url = '') {
    super();
  }

  send(data: unknown): void {
    this.sent.push(data);
  }

  close(): void {
    this.readyState = WebSocket.CLOSED;
    this.dispatchEvent(Object.assign(new Event('close'), { reason: '' }));
  }

  open(): void {
    this.readyState = WebSocket.OPEN;
    this.dispatchEvent(new Event('open'));
  }

  receive(data: unknown): void {
    this.dispatchEvent(Object.assign(new Event('message'), { data }));
  }

  drop(reason = ''): void {
    this.dispatchEvent(Object.assign(new Event('close'), { reason }));
  }

  binaryType = '';
  readyState: number = WebSocket.CONNECTING;
  readonly sent: unknown[] = [];
}

/** A Jupyter server whose answers the test sets. */
export class FakeServer implements IJupyterServer {
  url(parts: readonly string[], query?: Query): string {
    return apiUrl('/', parts, query);
  }

  request(parts: readonly string[], init: RequestInit = {}, query?: Query): Promise<Response> {
    this.requests.push({ method: init.method ?? 'GET', url: this.url(parts, query), body: init.body });
    return Promise.resolve(this.answer);
  }

  upload(parts: readonly string[], query: Query, body: Blob | Uint8Array<ArrayBuffer>, options: IUploadOptions): Promise<Response> {
    options.onProgress?.(1, 2);
    return this.request(parts, { method: 'POST', body }, query);
  }

  openSocket(parts: readonly string[], query?: Query): WebSocket {
    this.socket = new FakeSocket(this.url(parts, query));
    return this.socket as unknown as WebSocket;
  }

  readonly requests: IRequest[] = [];
  socket = new FakeSocket();
  answer = new Response('{}');
}

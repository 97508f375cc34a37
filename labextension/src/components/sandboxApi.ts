import type { paths } from '../protocol/api';
import { readEvents } from './eventStream';
import type { IUploadOptions } from './files/upload';
import type { IJupyterServer, Query } from './jupyterServer';
import { checkResponse } from './responses';

export type Verb = 'get' | 'post' | 'patch' | 'delete';

/** The routes that have a verb. */
export type RouteOf<V extends Verb> = {
  [P in keyof paths]: paths[P][V] extends { readonly responses: unknown } ? P : never;
}[keyof paths];

type Content<R, M extends string> = R extends { readonly content: Readonly<Record<M, infer C>> } ? C : never;
type Responses<O> = O extends { readonly responses: infer R } ? Omit<R, 'default'> : never;
type Values<T> = T[keyof T];

/** The type of a route's answer, `void` if it is empty. */
export type AnswerOf<P extends RouteOf<V>, V extends Verb> = Values<{
  [S in keyof Responses<paths[P][V]>]: Responses<paths[P][V]>[S] extends { readonly content: unknown }
    ? Content<Responses<paths[P][V]>[S], 'application/json'>
    : void;
}>;

type EventsOf<P extends RouteOf<V>, V extends Verb> = Content<Values<Responses<paths[P][V]>>, 'text/event-stream'>;

/** An event of a route that answers with server-sent events: its name, and the data of that name. */
export type EventOf<P extends RouteOf<V>, V extends Verb> = Values<{
  readonly [N in keyof EventsOf<P, V>]: { readonly name: N; readonly data: EventsOf<P, V>[N] };
}>;

type Part<O, N extends 'path' | 'query' | 'header'> = O extends { readonly parameters: { readonly [K in N]?: infer T } } ? NonNullable<T> : never;
type BodyOf<O> = O extends { readonly requestBody?: infer B } ? Content<NonNullable<B>, 'application/json'> : never;
/** A property that must be there if some of its value must. */
type Property<N extends string, T> = [T] extends [never] ? object : object extends T ? { readonly [K in N]?: T } : { readonly [K in N]: T };

/** The parameters in the path and the query, and the body, of a request. */
export type OptionsOf<P extends RouteOf<V>, V extends Verb> = Property<'path', Part<paths[P][V], 'path'>> &
  Property<'query', Part<paths[P][V], 'query'>> &
  Property<'headers', Part<paths[P][V], 'header'>> &
  Property<'body', BodyOf<paths[P][V]>> & { readonly signal?: AbortSignal };

type Arguments<P extends RouteOf<V>, V extends Verb> =
  object extends OptionsOf<P, V> ? [options?: OptionsOf<P, V>] : [options: OptionsOf<P, V>];

interface IOptions {
  readonly path?: Readonly<Record<string, string>>;
  readonly query?: Query;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: unknown;
  readonly signal?: AbortSignal;
}

/**
 * The routes below `sbx/api` of a Jupyter server, by their path and verb.
 *
 * Every method rejects with a `SandboxError` that has the server's code and message.
 */
export class SandboxApi {
  constructor(private readonly server: IJupyterServer) {}

  get<P extends RouteOf<'get'>>(route: P, ...[options]: Arguments<P, 'get'>): Promise<AnswerOf<P, 'get'>> {
    return this.call('get', route, options);
  }

  post<P extends RouteOf<'post'>>(route: P, ...[options]: Arguments<P, 'post'>): Promise<AnswerOf<P, 'post'>> {
    return this.call('post', route, options);
  }

  patch<P extends RouteOf<'patch'>>(route: P, ...[options]: Arguments<P, 'patch'>): Promise<AnswerOf<P, 'patch'>> {
    return this.call('patch', route, options);
  }

  delete<P extends RouteOf<'delete'>>(route: P, ...[options]: Arguments<P, 'delete'>): Promise<AnswerOf<P, 'delete'>> {
    return this.call('delete', route, options);
  }

  /** The whole answer of a route, for its headers or for bytes. */
  async response<V extends Verb, P extends RouteOf<V>>(verb: V, route: P, ...[options]: Arguments<P, V>): Promise<Response> {
    return checkResponse(await this.request(verb, route, options));
  }

  /** Sends bytes to a route. */
  async send<P extends RouteOf<'post'>>(route: P, to: OptionsOf<P, 'post'>, bytes: Uint8Array<ArrayBuffer>): Promise<AnswerOf<P, 'post'>> {
    const { path, query }: IOptions = to;
    const init = { method: 'POST', body: bytes, headers: { 'Content-Type': 'application/octet-stream' } };
    const response = await checkResponse(await this.server.request(segments(route, path), init, query));
    return (await response.json()) as AnswerOf<P, 'post'>;
  }

  /** Sends bytes to a route, with progress and cancellation. */
  upload<P extends RouteOf<'post'>>(route: P, to: OptionsOf<P, 'post'>, bytes: Blob, options: IUploadOptions): Promise<Response> {
    const { path, query }: IOptions = to;
    return this.server.upload(segments(route, path), query ?? {}, bytes, options);
  }

  /** The events of a route until its stream ends; `onBytes` is called with each sign of life. Throws when it breaks. */
  async *events<V extends Verb, P extends RouteOf<V>>(
    verb: V,
    route: P,
    options: OptionsOf<P, V>,
    onBytes?: () => void
  ): AsyncGenerator<EventOf<P, V> & { readonly id: string | null }, void> {
    const response = await checkResponse(await this.request(verb, route, options));
    yield* readEvents(response, onBytes) as AsyncGenerator<EventOf<P, V> & { readonly id: string | null }, void>;
  }

  /** The address of a route, for links. */
  url<P extends RouteOf<'get'>>(route: P, ...[options]: Arguments<P, 'get'>): string {
    const { path, query }: IOptions = options ?? {};
    return this.server.url(segments(route, path), query);
  }

  /** Opens the WebSocket of a route. */
  socket<P extends RouteOf<'get'>>(route: P, ...[options]: Arguments<P, 'get'>): WebSocket {
    const { path, query }: IOptions = options ?? {};
    return this.server.openSocket(segments(route, path), query);
  }

  private async call<T>(verb: Verb, route: string, options?: IOptions): Promise<T> {
    const response = await checkResponse(await this.request(verb, route, options));
    return (response.status === 204 ? undefined : await response.json()) as T;
  }

  private request(verb: Verb, route: string, { path, query, headers, body, signal }: IOptions = {}): Promise<Response> {
    // Options that are not given must not replace those in the connection's settings.
    const init: RequestInit = { method: verb.toUpperCase(), ...(headers && { headers }), ...(signal && { signal }) };
    if (body !== undefined) {
      init.headers = { 'Content-Type': 'application/json', ...headers };
      init.body = JSON.stringify(body);
    }
    return this.server.request(segments(route, path), init, query);
  }
}

/** The segments of a route, with its parameters filled in. */
function segments(route: string, path: Readonly<Record<string, string>> = {}): string[] {
  const [, ...parts] = route.split('/');
  return parts.map(part => (part.startsWith('{') ? (path[part.slice(1, -1)] ?? '') : part));
}

import { trans } from './translation';
import { checkResponse } from './responses';

/** What the one who uploads wants to know and to be able to do. */
export interface IUploadOptions {
  /** How many bytes of how many have left. */
  readonly onProgress?: (done: number, total: number) => void;
  readonly signal?: AbortSignal;
}

/** Posts bytes and follows them on their way, which `fetch` cannot; throws what the answer says. */
export async function postWithProgress(
  url: string,
  body: Blob | Uint8Array<ArrayBuffer>,
  headers: Headers,
  { onProgress, signal }: IUploadOptions
): Promise<Response> {
  const request = new XMLHttpRequest();
  request.open('POST', url);
  request.withCredentials = true;
  headers.forEach((value, name) => {
    request.setRequestHeader(name, value);
  });
  request.upload.addEventListener('progress', event => {
    onProgress?.(event.loaded, event.total);
  });
  const abort = () => {
    request.abort();
  };
  signal?.throwIfAborted();
  signal?.addEventListener('abort', abort);
  try {
    const answer = await new Promise<Response>((resolve, reject) => {
      request.addEventListener('load', () => {
        const { status, statusText, responseText } = request;
        resolve(new Response(status === 204 ? null : responseText, { status, statusText }));
      });
      request.addEventListener('error', () => {
        reject(new TypeError(trans.__('The upload broke off.')));
      });
      request.addEventListener('abort', () => {
        reject(new DOMException(trans.__('The upload was cancelled.'), 'AbortError'));
      });
      request.send(body);
    });
    return await checkResponse(answer);
  } finally {
    signal?.removeEventListener('abort', abort);
  }
}

/** Whether something was thrown because the user asked for it. */
export function isAbort(reason: unknown): boolean {
  return reason instanceof DOMException && reason.name === 'AbortError';
}

/** The cookie that shows a Jupyter server that a request comes from its own page. */
export function xsrfCookie(): string | undefined {
  return /(?:^|; )_xsrf=([^;]*)/.exec(document.cookie)?.[1];
}

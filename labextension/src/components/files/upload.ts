import { trans } from '../translation';
import { checkResponse } from '../responses';

/** Progress and cancellation of an upload. */
export interface IUploadOptions {
  /** Called with the bytes sent so far and the total. */
  readonly onProgress?: (done: number, total: number) => void;
  readonly signal?: AbortSignal;
}

/** Posts bytes and reports upload progress, which `fetch` cannot; throws the error of the response. */
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
        reject(new TypeError(trans.__('The upload failed: the connection was lost.')));
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

/** Whether an exception means that the user cancelled. */
export function isAbort(reason: unknown): boolean {
  return reason instanceof DOMException && reason.name === 'AbortError';
}

/** The `_xsrf` cookie, which a Jupyter server expects back in a header. */
export function xsrfCookie(): string | undefined {
  return /(?:^|; )_xsrf=([^;]*)/.exec(document.cookie)?.[1];
}

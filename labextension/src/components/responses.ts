import { errorFrom, SandboxError } from '../protocol/errors';
import { trans } from './translation';

/** Awaits a request; throws a sentence for people where the browser only says that it failed. */
export async function answered(request: Promise<Response>): Promise<Response> {
  try {
    return await request;
  } catch (reason) {
    // Browsers tell a server that is down by a TypeError, each with words of its own.
    throw reason instanceof TypeError ? new SandboxError('network', trans.__('The Jupyter server does not answer.')) : reason;
  }
}

/** Returns a successful response; throws the error in the body of any other. */
export async function checkResponse(response: Response): Promise<Response> {
  if (response.ok) {
    return response;
  }
  const text = await response.text();
  let body: unknown = null;
  try {
    body = JSON.parse(text);
  } catch {
    // A proxy in between answered with a page of its own; the status below says enough.
  }
  throw errorFrom(body, `The server answered ${response.status} ${response.statusText}.`.replace(' .', '.'));
}

/** The body of a successful response; `null` if it has more than `most` bytes, of which no more are read. */
export async function bytesAtMost(response: Response, most: number): Promise<Uint8Array | null> {
  const reader = (await checkResponse(response)).body?.getReader();
  const parts: Uint8Array[] = [];
  let size = 0;
  for (let part = await reader?.read(); part?.value !== undefined; part = await reader?.read()) {
    parts.push(part.value);
    size += part.value.length;
    if (size > most) {
      await reader?.cancel();
      return null;
    }
  }
  const whole = new Uint8Array(size);
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}

import { errorFrom } from '../protocol/errors';

/** Gives the response back, or throws what its body says went wrong. */
export async function checkResponse(response: Response): Promise<Response> {
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
  return (await (await checkResponse(response)).json()) as T;
}

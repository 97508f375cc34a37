import { errorFrom } from '../protocol/errors';

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

/** Parses the JSON body of a successful response; throws the error in the body of any other. */
export async function readJson<T>(response: Response): Promise<T> {
  return (await (await checkResponse(response)).json()) as T;
}

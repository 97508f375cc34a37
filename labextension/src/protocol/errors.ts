/** An error that the server or the kernel reported, with its Connect code. */
export class SandboxError extends Error {
  constructor(
    readonly code: string,
    message: string
  ) {
    super(message);
    this.name = 'SandboxError';
  }
}

interface IErrorBody {
  code?: unknown;
  message?: unknown;
}

/** Reads the error in a JSON body; `fallback` is the message when there is none. */
export function errorFrom(body: unknown, fallback: string): SandboxError {
  const { code, message } = (typeof body === 'object' && body !== null ? body : {}) as IErrorBody;
  return new SandboxError(
    typeof code === 'string' ? code : 'unknown',
    typeof message === 'string' && message !== '' ? message : fallback
  );
}

const FINAL_CODES: ReadonlySet<string> = new Set([
  'not_found',
  'permission_denied',
  'invalid_argument',
  'unauthenticated',
  'failed_precondition'
]);

/** Whether the same request would fail again, so that there is no point in repeating it. */
export function isFinal(error: SandboxError): boolean {
  return FINAL_CODES.has(error.code);
}

/** The message to show for anything that was thrown. */
export function messageOf(reason: unknown): string {
  return reason instanceof Error && reason.message !== '' ? reason.message : String(reason);
}

/** A message as a sentence of its own: with a capital, unless it begins with a name, and with an end. */
export function sentence(text: string): string {
  const begun = text.replace(/^[a-z]+(?=[ ,])/, word => word.charAt(0).toUpperCase() + word.slice(1));
  return /[.!?…]$/.test(begun) ? begun : `${begun}.`;
}

/** The longest file that is shown as text, in bytes. */
export const MAX_TEXT = 512 * 1024;

/** The text of a file; `null` if it is binary or not UTF-8. */
export function textOf(bytes: Uint8Array): string | null {
  if (bytes.includes(0)) {
    return null;
  }
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch {
    return null;
  }
}

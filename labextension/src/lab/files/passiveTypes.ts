/**
 * Media types of files and outputs of sandboxes that JupyterLab may draw in its page.
 *
 * These are the ones that `sbx_jupyter/kernel/contents.py` lets through from sandboxed kernels, other pictures,
 * and still pictures of our widgets. JupyterLab itself draws HTML of untrusted cells without scripts, and no SVG,
 * no JavaScript and no PDF. It leaves any further type to the renderer of an extension, and many of those say of
 * themselves that they are safe: Vega does, and its specifications send requests with the user's credentials.
 */
const PASSIVE_TYPES: ReadonlySet<string> = new Set([
  'text/plain',
  'text/html',
  'text/markdown',
  'text/latex',
  'image/png',
  'image/jpeg',
  'image/gif',
  'image/webp',
  'image/bmp',
  'image/svg+xml',
  'application/json',
  'text/jsonl',
  'application/javascript',
  'text/javascript',
  'application/pdf',
  'application/vnd.jupyter.widget-view+json',
  'application/vnd.sbx.still+json'
]);

/** Whether drawing this type does nothing in the page that a sandbox may not do. */
export function isPassive(mediaType: string): boolean {
  return PASSIVE_TYPES.has(mediaType);
}

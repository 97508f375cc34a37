/**
 * The policy of frames: they load nothing but their own content. Scripts may make scripts, as widgets do.
 *
 * The inner frame inherits the policy of the outer one, so both have the same.
 */
const POLICY =
  "default-src 'none'; script-src 'unsafe-inline' 'unsafe-eval' blob:; style-src 'unsafe-inline'; " +
  "img-src data: blob:; media-src data: blob:; font-src data:; worker-src blob:; connect-src data: blob:; " +
  "frame-src 'none'; form-action 'none'; base-uri 'none'";

const OUTER_STYLE = 'html,body{margin:0;height:100%;overflow:hidden}iframe{border:0;display:block;width:100%;height:100%}';

/**
 * The document of a frame that runs a script with an opaque origin and no network.
 *
 * It holds a second frame with the script, since only the policy of a frame's parent can keep it from
 * navigating itself to another address, which would tell that address what the script knows.
 */
export function frameDocument(script: string, style: string): string {
  return confinedDocument(page(style, `<script>${escapeScript(script)}</script>`));
}

/** The document of a frame that shows another one, which cannot leave its place and inherits the policy. */
export function confinedDocument(inner: string): string {
  return page(OUTER_STYLE, `<iframe sandbox="allow-scripts" srcdoc="${escapeAttribute(inner)}"></iframe>`);
}

/** Makes the frame; the caller gives it a size and a place. */
export function createFrame(content: string, title: string): HTMLIFrameElement {
  const frame = document.createElement('iframe');
  frame.className = 'sbx-WidgetFrame';
  frame.title = title;
  frame.setAttribute('sandbox', 'allow-scripts');
  frame.setAttribute('allow', '');
  frame.referrerPolicy = 'no-referrer';
  frame.srcdoc = content;
  return frame;
}

function page(style: string, body: string): string {
  const safeStyle = style.replace(/<\//g, '<\\/');
  return (
    '<!doctype html><html><head><meta charset="utf-8">' +
    `<meta http-equiv="Content-Security-Policy" content="${POLICY}"><style>${safeStyle}</style></head>` +
    `<body>${body}</body></html>`
  );
}

function escapeScript(code: string): string {
  return code.replace(/<\/(script)/gi, '<\\/$1').replace(/<!--/g, '<\\!--');
}

function escapeAttribute(text: string): string {
  return text.replace(/&/g, '&amp;').replace(/"/g, '&quot;');
}

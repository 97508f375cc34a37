import type { ISignal } from '@lumino/signaling';

/** The used parts of JupyterLab's HTML viewer: a frame whose sandbox can be changed, and a button "Trust HTML". */
interface IHtmlViewer {
  readonly content: { sandbox: string[] };
  readonly trusted: boolean;
  readonly trustedChanged: ISignal<unknown, boolean>;
}

/**
 * Keeps an HTML file of a sandbox out of Jupyter's origin, trusted or not.
 *
 * The viewer shows files under an address of Jupyter's own origin. A trusted file may run its scripts, but
 * without `allow-same-origin`, so that they reach neither the page nor the server's interface.
 */
export function confineHtmlPreview(widget: object): void {
  if (!isHtmlViewer(widget)) {
    return;
  }
  const confine = () => {
    widget.content.sandbox = widget.trusted ? ['allow-scripts'] : [];
  };
  confine();
  widget.trustedChanged.connect(confine);
}

function isHtmlViewer(widget: object): widget is IHtmlViewer {
  return 'trustedChanged' in widget && 'content' in widget && 'sandbox' in (widget.content as object);
}

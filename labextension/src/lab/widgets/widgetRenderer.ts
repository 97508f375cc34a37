import type { IRenderMime } from '@jupyterlab/rendermime-interfaces';
import { Widget } from '@lumino/widgets';

import { onThemeChange } from '../../components/theme';
import { trans } from '../../components/translation';
import type { IToFrame } from '../../protocol/widgetFrames';
import { messageOf } from '../../protocol/errors';
import { FRAME_READY, parseModelId, VIEW_TYPE } from '../../protocol/widgetFrames';
import { createFrame, frameDocument } from './frameDocument';
import type { FramePort } from './framePort';
import type { IWidgetFrame, WidgetBridge } from './widgetBridge';

const LEAST_HEIGHT = 20;
const MOST_HEIGHT = 2000;

/** The variables of the theme that widgets use. */
const THEME = /^--jp-(layout-color|ui-|inverse-|content-font|code-font|border-|brand-|accent-|warn-|error-|success-|info-|rendermime-error|widgets-)/;

/** Shows a widget of a sandboxed kernel: its text, and once the kernel has it, a frame that draws it. */
export class WidgetRenderer extends Widget implements IRenderMime.IRenderer, IWidgetFrame {
  constructor(private readonly bridge: WidgetBridge) {
    super();
    this.addClass('sbx-SandboxedWidget');
    this.stopTheme = onThemeChange(() => this.port?.post({ type: 'theme', theme: readTheme() }));
  }

  renderModel(model: IRenderMime.IMimeModel): Promise<void> {
    const view = model.data[VIEW_TYPE] as { model_id?: unknown } | undefined;
    const still = model.data['text/plain'];
    this.still = typeof still === 'string' ? still : trans.__('[a widget]');
    this.end(this.still);
    const id = parseModelId(view?.model_id);
    this.modelId = id;
    if (id !== undefined) {
      void this.draw(id);
    }
    return Promise.resolve();
  }

  post(message: IToFrame): void {
    this.port?.post(message);
  }

  kernelGone(): void {
    this.end(trans.__('%1 — run the cell again to draw it', this.still));
  }

  override dispose(): void {
    if (!this.isDisposed) {
      this.stopTheme();
      this.closeFrame();
      super.dispose();
    }
  }

  /** Draws a widget once the kernel has told of it, unless another one is to be drawn by then. */
  private async draw(modelId: string): Promise<void> {
    try {
      await this.bridge.known(modelId);
      const { script, style, Port } = await loadFrameCode();
      if (!this.isDisposed && this.modelId === modelId) {
        this.showFrame(createFrame(frameDocument(script, style), trans.__('Widget of a sandbox')), modelId, Port);
      }
    } catch (reason) {
      this.end(trans.__('%1 — not drawn: %2', this.still, messageOf(reason)));
    }
  }

  private showFrame(frame: HTMLIFrameElement, modelId: string, Port: typeof FramePort): void {
    this.closeFrame();
    const onReady = (event: MessageEvent) => {
      // The sender has no origin that could be checked, but it is the window inside of our frame.
      const outer = frame.contentWindow;
      const inner = outer !== null && outer.length > 0 ? outer[0] : undefined;
      if (event.data !== FRAME_READY || inner === undefined || event.source !== inner) {
        return;
      }
      window.removeEventListener('message', onReady);
      this.connectFrame(frame, inner, modelId, Port);
    };
    window.addEventListener('message', onReady);
    this.removeListener = () => {
      window.removeEventListener('message', onReady);
    };
    frame.style.height = '0';
    this.frame = frame;
    this.node.append(frame);
  }

  private connectFrame(frame: HTMLIFrameElement, inner: Window, modelId: string, Port: typeof FramePort): void {
    const { port1, port2 } = new MessageChannel();
    this.port = new Port(port1, {
      get: id => {
        this.bridge.get(this, id);
      },
      send: (id, message, buffers, number) => {
        this.bridge.send(this, id, message, buffers, number);
      },
      height: height => {
        this.node.querySelector('pre')?.remove();
        frame.style.height = `${Math.max(LEAST_HEIGHT, Math.min(MOST_HEIGHT, height))}px`;
      },
      stopped: reason => {
        this.end(
          reason === 'hanging'
            ? trans.__('%1 — stopped: the widget does not answer', this.still)
            : trans.__('%1 — stopped: the widget sent too much', this.still)
        );
      }
    });
    inner.postMessage('port', '*', [port2]);
    this.port.post({ type: 'start', modelId, theme: readTheme() });
  }

  private end(text: string): void {
    this.closeFrame();
    this.showText(text);
  }

  private closeFrame(): void {
    this.bridge.remove(this);
    this.removeListener();
    this.port?.close();
    this.port = undefined;
    this.frame?.remove();
    this.frame = undefined;
  }

  private showText(text: string): void {
    const node = document.createElement('pre');
    node.textContent = text;
    this.node.replaceChildren(node);
  }

  private still = '';
  private modelId: string | undefined;
  private frame: HTMLIFrameElement | undefined;
  private port: FramePort | undefined;
  private removeListener: () => void = () => undefined;
  private readonly stopTheme: () => void;
}

/** Loads what runs in frames, and what speaks with it, on the first widget. */
async function loadFrameCode(): Promise<{ readonly script: string; readonly style: string; readonly Port: typeof FramePort }> {
  const [script, style, { FramePort: Port }] = await Promise.all([
    import('./widgetFrame.js.txt'),
    import('./widgetFrame.css.txt'),
    import('./framePort')
  ]);
  return { script: script.default, style: style.default, Port };
}

/** The theme's variables and their values now. */
function readTheme(): Record<string, string> {
  const computed = getComputedStyle(document.body);
  const theme: Record<string, string> = {};
  for (const name of themeNames()) {
    theme[name] = computed.getPropertyValue(name).trim();
  }
  return theme;
}

/** The names of the variables, which browsers list only in style sheets. */
function themeNames(): Set<string> {
  const names = new Set<string>();
  for (const sheet of document.styleSheets) {
    for (const rule of sheet.href !== null && !sheet.href.startsWith(location.origin) ? [] : sheet.cssRules) {
      if (rule instanceof CSSStyleRule && rule.selectorText === ':root') {
        for (const name of rule.style) {
          if (THEME.test(name)) {
            names.add(name);
          }
        }
      }
    }
  }
  return names;
}

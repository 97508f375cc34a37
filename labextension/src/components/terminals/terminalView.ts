import { FitAddon } from '@xterm/addon-fit';
import { Terminal } from '@xterm/xterm';

import { element } from '../dom';
import { TerminalSession } from './terminalSession';
import { onThemeChange, themeValue } from '../theme';
import type { ISandboxTransport } from '../transport';

/** Shows a terminal session with xterm.js on pages without JupyterLab. */
export class TerminalView {
  constructor(
    readonly node: HTMLElement,
    transport: ISandboxTransport,
    pid: number | null = null
  ) {
    node.classList.add('sbx-Terminal');
    this.screen = element('div', 'sbx-Terminal-screen');
    this.message = element('p', 'sbx-Terminal-message', { role: 'status' });
    this.message.hidden = true;
    node.append(this.screen, this.message);
    this.term.loadAddon(this.fit);
    this.session = new TerminalSession(
      transport,
      {
        onData: data => {
          this.term.write(data);
        },
        onChange: () => {
          this.showMessage();
        }
      },
      { pid }
    );
  }

  /** Must run once the node is in the document: xterm measures its cells there. Does nothing once disposed. */
  open(): void {
    if (this.isDisposed) {
      return;
    }
    this.term.open(this.screen);
    this.retheme();
    this.stopTheme = onThemeChange(() => {
      this.retheme();
    });
    this.fit.fit();
    this.term.onData(text => {
      this.session.sendText(text);
    });
    this.term.onBinary(text => {
      this.session.sendBytes(Uint8Array.from(text, character => character.charCodeAt(0)));
    });
    this.term.onResize(size => {
      this.session.resize(size);
    });
    this.observer = new ResizeObserver(() => {
      this.fit.fit();
    });
    this.observer.observe(this.screen);
    this.session.resize(this.term);
  }

  focus(): void {
    this.term.focus();
  }

  dispose(): void {
    this.isDisposed = true;
    this.session.dispose();
    this.stopTheme?.();
    this.observer?.disconnect();
    this.term.dispose();
    this.node.replaceChildren();
  }

  private showMessage(): void {
    const { message } = this.session;
    this.message.textContent = message ?? '';
    this.message.hidden = message === null;
  }

  private retheme(): void {
    this.term.options.theme = {
      background: themeValue(this.node, 'background'),
      foreground: themeValue(this.node, 'foreground'),
      cursor: themeValue(this.node, 'foreground'),
      cursorAccent: themeValue(this.node, 'background'),
      selectionBackground: themeValue(this.node, 'selection')
    };
    this.term.options.fontFamily = themeValue(this.node, 'monospace');
  }

  private readonly term = new Terminal({ fontSize: 13, scrollback: 5000, minimumContrastRatio: 4.5 });
  private readonly fit = new FitAddon();
  private readonly session: TerminalSession;
  private readonly screen: HTMLElement;
  private readonly message: HTMLElement;
  private observer: ResizeObserver | null = null;
  private isDisposed = false;
  private stopTheme: (() => void) | null = null;
}

import { FitAddon } from '@xterm/addon-fit';
import { Terminal } from '@xterm/xterm';

import { element } from '../dom';
import { onThemeChange, themeValue } from '../theme';
import { trans } from '../translation';
import type { ISandboxTransport, SandboxState } from '../transport';
import type { TerminalRemedy } from './terminalSession';
import { TerminalSession } from './terminalSession';

/** Clears a terminal and its history: RIS. */
const FULL_RESET = '\x1bc';
/** Remedies with which the same terminal may be tried again; an attempt wakes a sandbox that may be woken. */
const CAN_RECONNECT: ReadonlySet<TerminalRemedy> = new Set(['reconnect', 'resume']);

/** Shows a terminal session with xterm.js on pages without JupyterLab. */
export class TerminalView {
  /** Shows the terminal of process `pid`, else a new one; `onPid` is told the process of each terminal that is shown. */
  constructor(
    readonly node: HTMLElement,
    private readonly transport: ISandboxTransport,
    pid: number | null = null,
    private readonly onPid?: (pid: number) => void
  ) {
    node.classList.add('sbx-Terminal');
    this.screen = element('div', 'sbx-Terminal-screen');
    this.message = element('p', '', { role: 'status' });
    this.remedyButton = element('button', 'sbx-Button sbx-mod-plain', { type: 'button' });
    this.remedyButton.addEventListener('click', () => {
      this.remedy();
    });
    this.band = element('div', 'sbx-Terminal-message', {}, this.message, this.remedyButton);
    this.band.hidden = true;
    node.append(this.screen, this.band);
    this.term.loadAddon(this.fit);
    this.session = this.sessionOf(pid);
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
    this.isOpen = true;
    this.session.resize(this.term);
  }

  /** Shows the terminal of process `pid` in place of the one that is shown; a new one for `null`. */
  show(pid: number | null): void {
    if (this.isDisposed || (pid !== null && pid === this.session.pid)) {
      return;
    }
    this.session.dispose();
    // By the stream, for output of the other terminal may still wait to be drawn.
    this.term.write(FULL_RESET);
    this.session = this.sessionOf(pid);
    this.showMessage();
    if (this.isOpen) {
      this.session.resize(this.term);
    }
  }

  /** Takes over what is known of the sandbox. */
  setSandboxState(state: SandboxState): void {
    this.sandboxState = state;
    this.session.setSandboxState(state);
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

  private sessionOf(pid: number | null): TerminalSession {
    const session: TerminalSession = new TerminalSession(
      this.transport,
      {
        onData: data => {
          this.term.write(data);
        },
        onChange: () => {
          this.showMessage();
          if (session.pid !== undefined) {
            this.onPid?.(session.pid);
          }
        }
      },
      { pid }
    );
    session.setSandboxState(this.sandboxState);
    return session;
  }

  private showMessage(): void {
    const { message, remedy } = this.session;
    this.message.textContent = message ?? '';
    this.remedyButton.textContent = CAN_RECONNECT.has(remedy) ? trans.__('Try now') : trans.__('New terminal');
    this.band.hidden = message === null;
  }

  private remedy(): void {
    if (CAN_RECONNECT.has(this.session.remedy)) {
      this.session.reconnect();
    } else {
      this.show(null);
    }
    this.term.focus();
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
  private sandboxState: SandboxState = 'running';
  private session: TerminalSession;
  private readonly screen: HTMLElement;
  private readonly band: HTMLElement;
  private readonly message: HTMLElement;
  private readonly remedyButton: HTMLButtonElement;
  private observer: ResizeObserver | null = null;
  private isOpen = false;
  private isDisposed = false;
  private stopTheme: (() => void) | null = null;
}

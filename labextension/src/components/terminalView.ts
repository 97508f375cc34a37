import { FitAddon } from '@xterm/addon-fit';
import { Terminal } from '@xterm/xterm';

import { sentenceOf } from '../protocol/errors';
import { element } from './dom';
import { trans } from './language';
import { onThemeChange, themeValue } from './theme';
import type { ISandboxTransport, ITerminalChannel } from './transport';

/** Milliseconds before the nth try to reach a lost terminal again. */
const RETRIES = [500, 1000, 2000, 4000, 8000];

/** After a terminal is attached its old output is shown; answers to queries in it are not typed. */
const REPLAY_TIME = 1000;
// eslint-disable-next-line no-control-regex
const ANSWER = /^\x1b(\[[?>=]?[\d;]*[Rcnty]|P|\])/;

/** An xterm.js screen on one sandbox terminal, for pages that have no JupyterLab. */
export class TerminalView {
  constructor(
    readonly node: HTMLElement,
    private readonly transport: ISandboxTransport,
    private pid: number | null = null
  ) {
    node.classList.add('sbx-Terminal');
    this.screen = element('div', 'sbx-Terminal-screen');
    this.message = element('p', 'sbx-Terminal-message', { role: 'status' });
    this.message.hidden = true;
    node.append(this.screen, this.message);
    this.term.loadAddon(this.fit);
  }

  /** Must run once the node is in the document: xterm measures its cells there. */
  open(): void {
    this.term.open(this.screen);
    this.retheme();
    this.stopTheme = onThemeChange(() => {
      this.retheme();
    });
    this.fit.fit();
    this.term.onData(text => {
      if (Date.now() - this.attached < REPLAY_TIME && ANSWER.test(text)) {
        return;
      }
      this.channel?.send(this.encoder.encode(text));
    });
    this.term.onBinary(text => {
      this.channel?.send(Uint8Array.from(text, character => character.charCodeAt(0)));
    });
    this.term.onResize(({ cols, rows }) => {
      this.channel?.resize(cols, rows);
    });
    this.observer = new ResizeObserver(() => {
      this.fit.fit();
    });
    this.observer.observe(this.screen);
    this.connect();
  }

  focus(): void {
    this.term.focus();
  }

  dispose(): void {
    this.disposed = true;
    window.clearTimeout(this.timer);
    this.stopTheme?.();
    this.observer?.disconnect();
    this.channel?.dispose();
    this.term.dispose();
    this.node.replaceChildren();
  }

  private connect(): void {
    const { cols, rows } = this.term;
    const again = this.pid === null ? {} : { pid: this.pid, since: this.seen };
    this.channel = this.transport.openTerminal(
      { cols, rows, ...again },
      {
        onStart: ({ pid, sequence }) => {
          this.pid = pid;
          this.attached = Date.now();
          this.seen = sequence;
          this.tries = 0;
          this.say(null);
          this.channel?.resize(this.term.cols, this.term.rows);
        },
        onData: (data, sequence) => {
          this.seen = sequence + data.length;
          this.term.write(data);
        },
        onExit: exit => {
          this.channel = null;
          this.say(trans.__('The shell ended with code %1.', exit.code));
        },
        onClose: reason => {
          this.channel = null;
          this.onLost(reason);
        }
      }
    );
  }

  /** An answer that says no is final; a lost connection is tried again. */
  private onLost(reason: Error | null): void {
    const delay = RETRIES[this.tries];
    if (this.disposed) {
      return;
    }
    if (reason !== null && (this.pid === null || /not_found|permission/.test((reason as { code?: string }).code ?? ''))) {
      this.say(sentenceOf(reason));
    } else if (delay === undefined) {
      this.say(trans.__('The connection to the sandbox is lost. Run the cell again to open a new terminal.'));
    } else {
      this.tries += 1;
      this.say(trans.__('The connection is lost. Trying again…'));
      this.timer = window.setTimeout(() => {
        this.connect();
      }, delay);
    }
  }

  private say(text: string | null): void {
    this.message.textContent = text ?? '';
    this.message.hidden = text === null;
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
  private readonly encoder = new TextEncoder();
  private readonly screen: HTMLElement;
  private readonly message: HTMLElement;
  private channel: ITerminalChannel | null = null;
  private observer: ResizeObserver | null = null;
  private stopTheme: (() => void) | null = null;
  private attached = 0;
  private seen = 0;
  private tries = 0;
  private timer = 0;
  private disposed = false;
}

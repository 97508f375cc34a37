import type { IThemeManager } from '@jupyterlab/apputils';
import type { ISettingRegistry } from '@jupyterlab/settingregistry';
import type { ITerminal, Terminal } from '@jupyterlab/terminal';
import type { ISignal } from '@lumino/signaling';
import { Signal } from '@lumino/signaling';

/** JupyterLab's own settings of terminals. */
const LAB_SETTINGS = '@jupyterlab/terminal-extension:plugin';

/** The options that look and feel the same in every terminal. What a closed tab does is not one of them. */
const SHARED = [
  'fontFamily',
  'fontSize',
  'lineHeight',
  'theme',
  'scrollback',
  'cursorBlink',
  'screenReaderMode',
  'pasteWithCtrlV',
  'autoFit',
  'macOptionIsMeta'
] as const;

/** The options of sandbox terminals: those that the user set for JupyterLab's terminals. */
export class TerminalPreferences {
  constructor(registry: ISettingRegistry | null, themes: IThemeManager | null) {
    registry
      ?.load(LAB_SETTINGS)
      .then(settings => {
        const read = () => {
          this.values = sharedOptions(settings.composite);
          this.changedSignal.emit();
        };
        settings.changed.connect(read);
        read();
      })
      .catch((reason: unknown) => {
        // Some pages have no terminals of their own; the defaults hold there.
        console.warn('The settings of terminals could not be read.', reason);
      });
    themes?.themeChanged.connect(() => {
      this.changedSignal.emit();
    });
  }

  /** The options for a new terminal; JupyterLab's defaults hold for those that are missing. */
  get options(): Partial<ITerminal.IOptions> {
    return { theme: 'inherit', ...this.values };
  }

  /** Applies the options to a terminal that is ready, now and after each change, until it is disposed. */
  follow(terminal: Terminal): void {
    const apply = () => {
      for (const [name, value] of Object.entries(this.options)) {
        terminal.setOption(name as keyof ITerminal.IOptions, value);
      }
    };
    const changed: ISignal<this, void> = this.changedSignal;
    changed.connect(apply);
    terminal.disposed.connect(() => {
      changed.disconnect(apply);
    });
    apply();
  }

  private readonly changedSignal = new Signal<this, void>(this);
  private values: Partial<ITerminal.IOptions> = {};
}

function sharedOptions(composite: ISettingRegistry.ISettings['composite']): Partial<ITerminal.IOptions> {
  const shared = SHARED.filter(name => composite[name] !== undefined && composite[name] !== null);
  return Object.fromEntries(shared.map(name => [name, composite[name]]));
}

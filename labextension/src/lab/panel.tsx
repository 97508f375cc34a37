import { ReactWidget } from '@jupyterlab/apputils';
import { addIcon, caretDownEmptyIcon, MenuSvg, refreshIcon } from '@jupyterlab/ui-components';
import type { CommandRegistry } from '@lumino/commands';
import type { Message } from '@lumino/messaging';
import type { Menu } from '@lumino/widgets';
import * as React from 'react';

import { isolationSummary, tierText } from './isolation';
import { sandboxIcon, shieldIcon, timeIcon } from './icons';
import { TIMEOUTS } from './dialogs';
import type { Sandboxes } from './sandboxes';
import { SandboxList } from './sandboxList';
import { CommandIDs } from './tokens';

/** The left side panel: every sandbox of this server and what can be done with it. */
export class SandboxPanel extends ReactWidget {
  constructor(
    private readonly sandboxes: Sandboxes,
    private readonly commands: CommandRegistry
  ) {
    super();
    this.id = 'sbx-panel';
    this.title.icon = sandboxIcon;
    this.title.caption = 'Sandboxes';
    this.addClass('sbx-Panel');
    this.node.setAttribute('role', 'region');
    this.node.setAttribute('aria-label', 'Sandboxes');
  }

  protected override onAfterShow(message: Message): void {
    super.onAfterShow(message);
    this.stopWatching ??= this.sandboxes.watch();
  }

  protected override onAfterHide(message: Message): void {
    super.onAfterHide(message);
    this.stopWatching?.();
    this.stopWatching = null;
  }

  protected override render(): React.JSX.Element {
    return <PanelBody sandboxes={this.sandboxes} commands={this.commands} openMenu={this.openMenu} />;
  }

  private readonly openMenu = (sandboxId: string, x: number, y: number): void => {
    const menu = sandboxMenu(this.commands, sandboxId);
    menu.aboutToClose.connect(() => {
      // The command runs after the menu closed, and its submenu goes with it.
      window.setTimeout(() => {
        menu.dispose();
      }, 0);
    });
    menu.open(x, y);
  };

  private stopWatching: (() => void) | null = null;
}

/** Everything that can be done with one sandbox. */
function sandboxMenu(commands: CommandRegistry, sandboxId: string): Menu {
  const args = { sandbox: sandboxId };
  const extend = new MenuSvg({ commands });
  extend.title.label = 'Keep for';
  extend.title.icon = timeIcon;
  TIMEOUTS.forEach(timeout => extend.addItem({ command: CommandIDs.setTimeout, args: { ...args, timeout } }));
  const menu = new MenuSvg({ commands });
  menu.addClass('sbx-Menu');
  [CommandIDs.openTerminal, CommandIDs.attachTerminal, CommandIDs.browseFiles, CommandIDs.openMetrics].forEach(command =>
    menu.addItem({ command, args })
  );
  menu.addItem({ type: 'separator' });
  menu.addItem({ type: 'submenu', submenu: extend });
  menu.addItem({ command: CommandIDs.pause, args });
  menu.addItem({ command: CommandIDs.resume, args });
  menu.addItem({ command: CommandIDs.copyId, args });
  menu.addItem({ type: 'separator' });
  menu.addItem({ command: CommandIDs.kill, args });
  return menu;
}

/** Draws again after every change of the sandboxes. */
function useSandboxes(sandboxes: Sandboxes): void {
  const [, draw] = React.useReducer((count: number) => count + 1, 0);
  React.useEffect(() => {
    sandboxes.changed.connect(draw);
    return () => {
      sandboxes.changed.disconnect(draw);
    };
  }, [sandboxes]);
}

interface IBodyProps {
  readonly sandboxes: Sandboxes;
  readonly commands: CommandRegistry;
  readonly openMenu: (sandboxId: string, x: number, y: number) => void;
}

function PanelBody({ sandboxes, commands, openMenu }: IBodyProps): React.JSX.Element {
  useSandboxes(sandboxes);
  return (
    <>
      <PanelHeader sandboxes={sandboxes} commands={commands} />
      <IsolationBadge sandboxes={sandboxes} commands={commands} />
      <StaleNotice sandboxes={sandboxes} />
      <div className="sbx-Panel-body">
        <PanelContent sandboxes={sandboxes} commands={commands} openMenu={openMenu} />
      </div>
    </>
  );
}

function PanelContent({ sandboxes, commands, openMenu }: IBodyProps): React.JSX.Element {
  const { items, error, creating } = sandboxes;
  if (items === null) {
    return error === null ? <Loading /> : <Failure sentence={error} retry={() => void sandboxes.refresh()} />;
  }
  if (items.length === 0 && creating === 0) {
    return <Empty create={() => void commands.execute(CommandIDs.create)} />;
  }
  return <SandboxList sandboxes={sandboxes} items={items} commands={commands} openMenu={openMenu} />;
}

function PanelHeader({ sandboxes, commands }: Omit<IBodyProps, 'openMenu'>): React.JSX.Element {
  const count = sandboxes.items?.length ?? 0;
  return (
    <header className="sbx-Panel-header">
      <h2>Sandboxes</h2>
      {count > 0 && <span className="sbx-Panel-count">{count}</span>}
      <span className="sbx-Panel-space" />
      <button
        type="button"
        className="sbx-IconButton"
        title="Refresh"
        aria-label="Refresh the list of sandboxes"
        onClick={() => void commands.execute(CommandIDs.refresh)}
      >
        <refreshIcon.react tag="span" />
      </button>
      <span className="sbx-SplitButton">
        <button
          type="button"
          title="Create a sandbox with the default template and timeout"
          onClick={() => void commands.execute(CommandIDs.create)}
        >
          <addIcon.react tag="span" />
          New
        </button>
        <button
          type="button"
          title="Create with options…"
          aria-label="Create a sandbox with options"
          onClick={() => void commands.execute(CommandIDs.createWithOptions)}
        >
          <caretDownEmptyIcon.react tag="span" />
        </button>
      </span>
    </header>
  );
}

function IsolationBadge({ sandboxes, commands }: Omit<IBodyProps, 'openMenu'>): React.JSX.Element | null {
  const isolation = sandboxes.info?.isolation;
  if (!isolation) {
    return null;
  }
  const { label, level } = tierText(isolation.tier);
  return (
    <button
      type="button"
      className={`sbx-Badge sbx-mod-${level}`}
      title={isolationSummary(isolation)}
      onClick={() => void commands.execute(CommandIDs.showIsolation)}
    >
      <shieldIcon.react tag="span" />
      <span className="sbx-Badge-label">{label}</span>
      <span className="sbx-Badge-tier">{isolation.tier}</span>
    </button>
  );
}

/** The list is kept while the server is away; this says that it is old. */
function StaleNotice({ sandboxes }: { readonly sandboxes: Sandboxes }): React.JSX.Element | null {
  if (sandboxes.error === null || sandboxes.items === null) {
    return null;
  }
  return (
    <div className="sbx-Notice" role="alert">
      <span>{sandboxes.error}</span>
      <button type="button" className="sbx-TextButton" onClick={() => void sandboxes.refresh()}>
        Retry
      </button>
    </div>
  );
}

function Loading(): React.JSX.Element {
  return (
    <div className="sbx-Loading" role="status" aria-label="Loading the sandboxes">
      {[0, 1, 2].map(row => (
        <div key={row} className="sbx-Loading-row" />
      ))}
    </div>
  );
}

function Failure({ sentence, retry }: { readonly sentence: string; readonly retry: () => void }): React.JSX.Element {
  return (
    <div className="sbx-State" role="alert">
      <p className="sbx-State-title">Could not list sandboxes</p>
      <p className="sbx-State-text">{sentence}</p>
      <button type="button" className="sbx-Button sbx-mod-plain" onClick={retry}>
        Try again
      </button>
    </div>
  );
}

function Empty({ create }: { readonly create: () => void }): React.JSX.Element {
  return (
    <div className="sbx-State">
      <sandboxIcon.react tag="span" className="sbx-State-icon" />
      <p className="sbx-State-title">No sandboxes yet</p>
      <p className="sbx-State-text">Create one to run code, open terminals and edit files apart from this machine.</p>
      <button type="button" className="sbx-Button" onClick={create}>
        Create sandbox
      </button>
    </div>
  );
}

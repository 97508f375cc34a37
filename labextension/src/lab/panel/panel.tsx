import { ReactWidget } from '@jupyterlab/apputils';
import { addIcon, caretDownEmptyIcon, MenuSvg, refreshIcon } from '@jupyterlab/ui-components';
import type { CommandRegistry } from '@lumino/commands';
import type { Message } from '@lumino/messaging';
import type { Menu } from '@lumino/widgets';
import * as React from 'react';

import { trans } from '../../components/translation';
import { isolationSummary, tierText } from './isolationText';
import { ReadMoreLine } from '../help/readMoreLine';
import { CommandLine } from './commandLine';
import type { IsolationPopover } from './isolationDetails';
import { ConnectionSwitch, ConnectionTrouble } from './connectionSwitch';
import { sandboxIcon, shieldIcon, storageIcon, timeIcon } from '../icons';
import { TIMEOUTS } from './timeouts';
import type { Sandboxes } from '../sandboxes';
import { IconAction, Loading } from '../states';
import { EndedList } from './list/endedList';
import type { EndedSandboxes } from './list/endedSandboxes';
import { SearchableList } from './list/searchableList';
import type { Usage } from './list/usage';
import { CommandIDs } from '../commandIds';
import type { CurrentNotebook } from '../notebooks/currentNotebook';
import type { IErrorDescription } from '../errorDescription';

/** The panel in the left sidebar: the sandboxes of this server and the commands on them. */
export class SandboxPanel extends ReactWidget {
  constructor(
    private readonly sandboxes: Sandboxes,
    private readonly usage: Usage,
    private readonly ended: EndedSandboxes,
    private readonly commands: CommandRegistry,
    private readonly notebook: CurrentNotebook
  ) {
    super();
    this.id = 'sbx-panel';
    this.title.icon = sandboxIcon;
    this.title.caption = trans.__('Sandboxes');
    this.addClass('sbx-Panel');
    this.node.setAttribute('role', 'region');
    this.node.setAttribute('aria-label', trans.__('Sandboxes'));
  }

  protected override onAfterShow(message: Message): void {
    super.onAfterShow(message);
    this.stopWatching ??= bothOf(this.sandboxes.watch(), this.usage.follow());
  }

  protected override onAfterHide(message: Message): void {
    super.onAfterHide(message);
    this.stopWatching?.();
    this.stopWatching = null;
  }

  protected override render(): React.JSX.Element {
    return (
      <PanelBody
        sandboxes={this.sandboxes}
        usage={this.usage}
        ended={this.ended}
        commands={this.commands}
        notebook={this.notebook}
        openMenu={this.openMenu}
      />
    );
  }

  private readonly openMenu = (sandboxId: string, x: number, y: number): void => {
    const menu = sandboxMenu(this.commands, sandboxId);
    const before = document.activeElement;
    menu.aboutToClose.connect(() => {
      // Before a command opens a dialog, which gives the focus back to where it finds it.
      if (before instanceof HTMLElement && this.node.contains(before)) {
        before.focus();
      }
      // The command runs after the menu closed, and its submenu goes with it.
      window.setTimeout(() => {
        menu.dispose();
      }, 0);
    });
    menu.open(x, y);
  };

  private stopWatching: (() => void) | null = null;
}

/** A function that calls both. */
function bothOf(one: () => void, other: () => void): () => void {
  return () => {
    one();
    other();
  };
}

/** The menu of the commands on one sandbox. */
function sandboxMenu(commands: CommandRegistry, sandboxId: string): Menu {
  const args = { sandbox: sandboxId };
  const extend = new MenuSvg({ commands });
  extend.title.label = trans.__('Keep for');
  extend.title.icon = timeIcon;
  TIMEOUTS.forEach(timeout => extend.addItem({ command: CommandIDs.setTimeout, args: { ...args, timeout } }));
  const menu = new MenuSvg({ commands });
  menu.addClass('sbx-Menu');
  [CommandIDs.openTerminal, CommandIDs.attachTerminal, CommandIDs.browseFiles, CommandIDs.openMetrics, CommandIDs.openDetails, CommandIDs.openPort].forEach(command =>
    menu.addItem({ command, args })
  );
  menu.addItem({ type: 'separator' });
  menu.addItem({ type: 'submenu', submenu: extend });
  [CommandIDs.pause, CommandIDs.resume, CommandIDs.snapshot, CommandIDs.fork].forEach(command =>
    menu.addItem({ command, args })
  );
  menu.addItem({ type: 'separator' });
  menu.addItem({ command: CommandIDs.rename, args });
  menu.addItem({ command: CommandIDs.copyId, args });
  menu.addItem({ type: 'separator' });
  menu.addItem({ command: CommandIDs.kill, args });
  return menu;
}

/** Renders again after every change of the sandboxes, and when another notebook comes in front. */
function useChanges(sandboxes: Sandboxes, notebook: CurrentNotebook, usage: Usage): () => void {
  const [, draw] = React.useReducer((count: number) => count + 1, 0);
  React.useEffect(() => {
    sandboxes.changed.connect(draw);
    usage.changed.connect(draw);
    notebook.changed.connect(draw);
    return () => {
      sandboxes.changed.disconnect(draw);
      usage.changed.disconnect(draw);
      notebook.changed.disconnect(draw);
    };
  }, [sandboxes, notebook, usage]);
  return draw;
}

interface IBodyProps {
  readonly sandboxes: Sandboxes;
  readonly usage: Usage;
  readonly ended: EndedSandboxes;
  readonly commands: CommandRegistry;
  readonly notebook: CurrentNotebook;
  readonly openMenu: (sandboxId: string, x: number, y: number) => void;
}

function PanelBody(props: IBodyProps): React.JSX.Element {
  const { sandboxes, commands, notebook, usage, ended } = props;
  const draw = useChanges(sandboxes, notebook, usage);
  return (
    <>
      <PanelHeader sandboxes={sandboxes} commands={commands} />
      <IsolationBadge sandboxes={sandboxes} />
      <ConnectionSwitch sandboxes={sandboxes} />
      <ConnectionTrouble sandboxes={sandboxes} />
      <StaleNotice sandboxes={sandboxes} />
      <div className="sbx-Panel-body">
        <PanelContent {...props} />
        <EndedList
          ended={ended.items}
          commands={commands}
          dismiss={id => {
            ended.remove(id);
            draw();
          }}
        />
      </div>
    </>
  );
}

function PanelContent(props: IBodyProps): React.JSX.Element {
  const { sandboxes, commands } = props;
  const { items, error, creating } = sandboxes;
  if (items === null) {
    return error === null ? <Loading label={trans.__('Loading the sandboxes')} /> : <Failure error={error} retry={() => void sandboxes.refresh()} />;
  }
  if (items.length === 0 && creating === 0) {
    return <Empty create={() => void commands.execute(CommandIDs.create)} />;
  }
  return <SearchableList {...props} items={items} />;
}

function PanelHeader({ sandboxes, commands }: Pick<IBodyProps, 'sandboxes' | 'commands'>): React.JSX.Element {
  const count = sandboxes.items?.length ?? 0;
  return (
    <div className="sbx-Panel-header">
      <h2>{trans.__('Sandboxes')}</h2>
      {count > 0 && <span className="sbx-Panel-count">{count}</span>}
      <span className="sbx-Panel-space" />
      <IconAction icon={storageIcon} label={trans.__('Snapshots, templates, volumes and secrets')} onClick={() => void commands.execute(CommandIDs.openStorage)} />
      <button
        type="button"
        className="sbx-IconButton"
        title={trans.__('Refresh')}
        aria-label={trans.__('Refresh the list of sandboxes')}
        onClick={() => void commands.execute(CommandIDs.refresh)}
      >
        <refreshIcon.react tag="span" />
      </button>
      <span className="sbx-SplitButton">
        <button
          type="button"
          title={trans.__('Create a sandbox with the default template and timeout')}
          aria-label={trans.__('New sandbox')}
          onClick={() => void commands.execute(CommandIDs.create)}
        >
          <addIcon.react tag="span" />
          <span className="sbx-SplitButton-label">{trans.__('New')}</span>
        </button>
        <button
          type="button"
          title={trans.__('Create with options…')}
          aria-label={trans.__('Create a sandbox with options')}
          onClick={() => void commands.execute(CommandIDs.createWithOptions)}
        >
          <caretDownEmptyIcon.react tag="span" />
        </button>
      </span>
    </div>
  );
}

/** Shows the isolation tier or the host of the deployment; a click opens the details. */
function IsolationBadge({ sandboxes }: { readonly sandboxes: Sandboxes }): React.JSX.Element | null {
  const popover = React.useRef<IsolationPopover | null>(null);
  React.useEffect(() => () => popover.current?.dispose(), []);
  const toggle = async (badge: HTMLElement) => {
    const isOpen = popover.current?.isDisposed === false;
    popover.current?.dispose();
    if (!isOpen) {
      const { IsolationPopover } = await import('./isolationDetails');
      if (badge.isConnected && popover.current?.isDisposed !== false) {
        popover.current = new IsolationPopover(sandboxes.info, badge);
        popover.current.open();
      }
    }
  };
  const { info, items, error } = sandboxes;
  const host = info?.url_kind === 'configured' ? (info.host ?? trans.__('Remote')) : null;
  if (host === null && items === null && error !== null) {
    // No engine runs that could isolate anything.
    return null;
  }
  const isolation = info?.isolation ?? null;
  if (isolation === null && host === null) {
    return null;
  }
  const { label, level } =
    isolation === null ? ({ label: trans.__('Remote'), level: 'unknown' } as const) : tierText(isolation.tier);
  return (
    <button
      type="button"
      className={`sbx-Badge sbx-mod-${level}`}
      title={isolation === null ? trans.__('The deployment does not say how it isolates sandboxes.') : isolationSummary(isolation)}
      aria-haspopup="dialog"
      aria-expanded="false"
      onClick={event => {
        void toggle(event.currentTarget);
      }}
    >
      <shieldIcon.react tag="span" />
      <span className="sbx-Badge-label">{label}</span>
      <span className="sbx-Badge-tier">{host ?? isolation?.tier}</span>
    </button>
  );
}

/** Warns that the list is out of date while the server does not answer. */
function StaleNotice({ sandboxes }: { readonly sandboxes: Sandboxes }): React.JSX.Element | null {
  const { error } = sandboxes;
  if (error === null || sandboxes.items === null) {
    return null;
  }
  return (
    <div className="sbx-Notice" role="alert">
      <span>{[`${error.title}.`, error.message, error.advice, error.command].filter(part => part !== undefined).join(' ')}</span>
      <ReadMoreLine page={error.page} />
      <button type="button" className="sbx-TextButton" onClick={() => void sandboxes.refresh()}>
        {trans.__('Retry')}
      </button>
    </div>
  );
}

function Failure({ error, retry }: { readonly error: IErrorDescription; readonly retry: () => void }): React.JSX.Element {
  return (
    <div className="sbx-State" role="alert">
      <p className="sbx-State-title">{error.title}</p>
      <p className="sbx-State-text">{error.message}</p>
      {error.advice !== undefined && <p>{error.advice}</p>}
      <CommandLine text={error.command} />
      <ReadMoreLine page={error.page} />
      <button type="button" className="sbx-Button" onClick={retry}>
        {trans.__('Try again')}
      </button>
    </div>
  );
}

function Empty({ create }: { readonly create: () => void }): React.JSX.Element {
  return (
    <div className="sbx-State">
      <sandboxIcon.react tag="span" className="sbx-State-icon" />
      <p className="sbx-State-title">{trans.__('No sandboxes yet')}</p>
      <p className="sbx-State-text">
        {trans.__('Create one to run code, open terminals and edit files isolated from this machine.')}
      </p>
      <button type="button" className="sbx-Button" onClick={create}>
        {trans.__('Create sandbox')}
      </button>
    </div>
  );
}

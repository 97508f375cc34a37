import { ellipsesIcon, folderIcon, terminalIcon } from '@jupyterlab/ui-components';
import type { LabIcon } from '@jupyterlab/ui-components';
import type { CommandRegistry } from '@lumino/commands';
import * as React from 'react';

import { formatAge, formatBytes, formatCountdown } from '../../components/format';
import { trans } from '../../components/translation';
import type { ISandbox } from '../../protocol/sandboxes';
import { displayName, templateName } from '../../protocol/sandboxes';
import { metricsIcon } from '../icons';
import { activityText } from './activityText';
import type { IActivity, Sandboxes } from '../sandboxes';
import { CommandIDs } from '../commandIds';
import type { CurrentNotebook } from '../notebooks/currentNotebook';

/** A remaining time below this many seconds is shown as a warning. */
const SOON = 60;

interface IListProps {
  readonly sandboxes: Sandboxes;
  readonly items: readonly ISandbox[];
  readonly commands: CommandRegistry;
  readonly notebook: CurrentNotebook;
  readonly openMenu: (sandboxId: string, x: number, y: number) => void;
}

/** The rows; arrow keys move between them, Enter opens a terminal, F2 renames, Delete asks to kill. */
export function SandboxList(props: IListProps): React.JSX.Element {
  const { sandboxes, items } = props;
  const [current, setCurrent] = React.useState<string | null>(null);
  const list = React.useRef<HTMLUListElement>(null);
  const now = useClock(sandboxes);
  const active = items.some(item => item.sandboxID === current) ? current : (items[0]?.sandboxID ?? null);

  const move = (step: number | 'first' | 'last') => {
    const at = items.findIndex(item => item.sandboxID === active);
    const next = step === 'first' ? 0 : step === 'last' ? items.length - 1 : at + step;
    const target = items[next];
    if (target) {
      setCurrent(target.sandboxID);
      list.current?.querySelectorAll<HTMLElement>('.sbx-Row')[next]?.focus();
    }
  };

  return (
    <ul className="sbx-List" ref={list} aria-label={trans.__('Sandboxes')}>
      {sandboxes.creating > 0 && <CreatingRow />}
      {items.map(sandbox => (
        <Row
          key={sandbox.sandboxID}
          {...props}
          sandbox={sandbox}
          now={now}
          isCurrent={sandbox.sandboxID === active}
          onCurrent={() => {
            setCurrent(sandbox.sandboxID);
          }}
          move={move}
        />
      ))}
    </ul>
  );
}

function CreatingRow(): React.JSX.Element {
  return (
    <li className="sbx-Row sbx-mod-creating">
      <span className="sbx-Dot sbx-mod-resuming" />
      <span className="sbx-Row-name">{trans.__('Creating…')}</span>
    </li>
  );
}

/** The server's time, updated once per second. */
function useClock(sandboxes: Sandboxes): number {
  const [now, setNow] = React.useState(() => sandboxes.now());
  React.useEffect(() => {
    const timer = window.setInterval(() => {
      if (document.visibilityState === 'visible') {
        setNow(sandboxes.now());
      }
    }, 1000);
    return () => {
      window.clearInterval(timer);
    };
  }, [sandboxes]);
  return now;
}

interface IRowProps extends IListProps {
  readonly sandbox: ISandbox;
  readonly now: number;
  readonly isCurrent: boolean;
  readonly onCurrent: () => void;
  readonly move: (step: number | 'first' | 'last') => void;
}

function Row(props: IRowProps): React.JSX.Element {
  const { sandboxes, sandbox, commands, openMenu, isCurrent, onCurrent } = props;
  const id = sandbox.sandboxID;
  const run = (command: string) => void commands.execute(command, { sandbox: id });
  const activity = sandboxes.activity(id);
  const state = stateText(sandbox, activity);
  const isNotebooks = props.notebook.sandboxId === id;
  const openMenuBelow = (node: Element) => {
    const { left, bottom } = node.getBoundingClientRect();
    openMenu(id, left, bottom);
  };
  return (
    <li
      className={`sbx-Row${activity ? ' sbx-mod-busy' : ''}${isNotebooks ? ' sbx-mod-notebook' : ''}`}
      tabIndex={isCurrent ? 0 : -1}
      aria-label={`${displayName(sandbox)}, ${state}${isNotebooks ? `, ${trans.__('this notebook')}` : ''}`}
      aria-busy={activity !== undefined}
      onFocus={onCurrent}
      onKeyDown={event => {
        onRowKey(event, props, run, openMenuBelow);
      }}
      onDoubleClick={() => {
        run(CommandIDs.openTerminal);
      }}
      onContextMenu={event => {
        event.preventDefault();
        event.stopPropagation();
        openMenu(id, event.clientX, event.clientY);
      }}
    >
      <span className={`sbx-Dot sbx-mod-${activity?.kind ?? sandbox.state}`} title={state} />
      <span className="sbx-Row-name" title={nameTitle(sandbox)}>
        {displayName(sandbox)}
      </span>
      {isNotebooks && (
        <span className="sbx-Chip" title={trans.__('The kernel of %1 runs in this sandbox.', props.notebook.name)}>
          {trans.__('This notebook')}
        </span>
      )}
      <RowFacts sandbox={sandbox} now={props.now} activity={activity} />
      {activity !== undefined && <RowProgress sandboxes={sandboxes} sandboxId={id} activity={activity} />}
      <span className="sbx-Row-actions">
        <Action icon={terminalIcon} label={trans.__('Open terminal')} tab={isCurrent} onClick={() => { run(CommandIDs.openTerminal); }} />
        <Action icon={folderIcon} label={trans.__('Browse files')} tab={isCurrent} onClick={() => { run(CommandIDs.browseFiles); }} />
        <Action icon={metricsIcon} label={trans.__('Show metrics')} tab={isCurrent} onClick={() => { run(CommandIDs.openMetrics); }} />
        <Action icon={ellipsesIcon} label={trans.__('More actions')} tab={isCurrent} popup onClick={openMenuBelow} />
      </span>
    </li>
  );
}

function nameTitle(sandbox: ISandbox): string {
  const name = displayName(sandbox);
  return name === sandbox.sandboxID ? name : `${name}\n${sandbox.sandboxID}`;
}

/** The state of a sandbox, or the activity on it, in words. */
function stateText(sandbox: ISandbox, activity: IActivity | undefined): string {
  if (activity !== undefined) {
    return activityText(activity);
  }
  return sandbox.state === 'paused' ? trans.__('paused') : trans.__('running');
}

interface IFactsProps {
  readonly sandbox: ISandbox;
  readonly now: number;
  readonly activity: IActivity | undefined;
}

function RowFacts({ sandbox, now, activity }: IFactsProps): React.JSX.Element {
  const left = (Date.parse(sandbox.endAt) - now) / 1000;
  const age = (now - Date.parse(sandbox.startedAt)) / 1000;
  const template = templateName(sandbox);
  return (
    <span className="sbx-Row-facts">
      <span className="sbx-Row-template" title={trans.__('Template %1', template)}>
        {template}
      </span>
      <span title={trans.__('Started %1', new Date(sandbox.startedAt).toLocaleString())}>
        {trans.__('%1 old', formatAge(age))}
      </span>
      {sandbox.state === 'paused' || activity !== undefined ? (
        <span className="sbx-Row-state">{stateText(sandbox, activity)}</span>
      ) : (
        <span
          className={left < SOON ? 'sbx-Row-left sbx-mod-soon' : 'sbx-Row-left'}
          title={trans.__('Ends %1', new Date(sandbox.endAt).toLocaleString())}
        >
          {left > 0 ? trans.__('%1 left', formatCountdown(left)) : trans.__('ending')}
        </span>
      )}
    </span>
  );
}

interface IProgressProps {
  readonly sandboxes: Sandboxes;
  readonly sandboxId: string;
  readonly activity: IActivity;
}

/** Shows the progress of an operation, if the engine reports it, and a Cancel button. */
function RowProgress({ sandboxes, sandboxId, activity }: IProgressProps): React.JSX.Element | null {
  const { operation } = activity;
  if (operation === null) {
    return null;
  }
  const { doneBytes, totalBytes, cancellable, operationID } = operation;
  const all = totalBytes === null ? formatBytes(doneBytes) : `${formatBytes(doneBytes)} / ${formatBytes(totalBytes)}`;
  return (
    <span className="sbx-Row-progress">
      <progress
        aria-label={activityText(activity)}
        max={totalBytes ?? undefined}
        value={totalBytes === null ? undefined : Math.min(doneBytes, totalBytes)}
      />
      <span className="sbx-Row-bytes">{all}</span>
      {cancellable && (
        <button
          type="button"
          className="sbx-TextButton"
          onClick={() => {
            // If it is too late to cancel, the operation itself reports how it ended.
            sandboxes.cancel(sandboxId, operationID).catch(() => undefined);
          }}
        >
          {trans.__('Cancel')}
        </button>
      )}
    </span>
  );
}

interface IActionProps {
  readonly icon: LabIcon;
  readonly label: string;
  readonly tab: boolean;
  readonly popup?: boolean;
  readonly onClick: (node: Element) => void;
}

function Action({ icon, label, tab, popup, onClick }: IActionProps): React.JSX.Element {
  return (
    <button
      type="button"
      className="sbx-IconButton"
      title={label}
      aria-label={label}
      aria-haspopup={popup ? 'menu' : undefined}
      tabIndex={tab ? 0 : -1}
      onClick={event => {
        event.stopPropagation();
        onClick(event.currentTarget);
      }}
      onDoubleClick={event => {
        event.stopPropagation();
      }}
    >
      <icon.react tag="span" />
    </button>
  );
}

function onRowKey(
  event: React.KeyboardEvent<HTMLElement>,
  { move }: IRowProps,
  run: (command: string) => void,
  openMenuBelow: (node: Element) => void
): void {
  if (event.target !== event.currentTarget) {
    return;
  }
  const keys: Record<string, () => void> = {
    ArrowDown: () => { move(1); },
    ArrowUp: () => { move(-1); },
    Home: () => { move('first'); },
    End: () => { move('last'); },
    Enter: () => { run(CommandIDs.openTerminal); },
    F2: () => { run(CommandIDs.rename); },
    Delete: () => { run(CommandIDs.kill); },
    ContextMenu: () => { openMenuBelow(event.currentTarget); }
  };
  const action = event.key === 'F10' && event.shiftKey ? keys['ContextMenu'] : keys[event.key];
  if (action) {
    event.preventDefault();
    event.stopPropagation();
    action();
  }
}

import { ellipsesIcon, folderIcon, terminalIcon } from '@jupyterlab/ui-components';
import type { LabIcon } from '@jupyterlab/ui-components';
import * as React from 'react';

import { formatAge, formatBytes, formatCountdown } from '../../../components/format';
import { trans } from '../../../components/translation';
import type { IReading } from '../../../protocol/runtime';
import type { ISandbox } from '../../../protocol/sandboxes';
import { displayName, templateName, visible } from '../../../protocol/sandboxes';
import { CommandIDs } from '../../commandIds';
import { metricsIcon } from '../../icons';
import type { IActivity } from '../../activities';
import { activityText } from '../activityText';
import { ClockContext } from './clock';
import type { IPick } from './selection';
import { RowChart } from './rowChart';

/** A remaining time below this many seconds is shown as a warning. */
const SOON = 60;

/** What rows can do; the same object for all of them and for ever. */
export interface IRowActions {
  readonly run: (command: string, sandboxId: string) => void;
  readonly openMenu: (sandboxId: string, x: number, y: number) => void;
  readonly focus: (sandboxId: string) => void;
  readonly move: (step: number | 'first' | 'last') => void;
  readonly pick: (pick: IPick) => void;
  readonly pickAll: () => void;
  /** Ends the sandboxes that are chosen together, or this one. */
  readonly kill: (sandboxId: string) => void;
  readonly cancel: (sandboxId: string, operationId: string) => void;
}

interface IRowProps {
  readonly sandbox: ISandbox;
  readonly activity: IActivity | undefined;
  readonly readings: readonly IReading[];
  /** The name of the notebook in front, if its kernel runs here. */
  readonly notebook: string | null;
  readonly isCurrent: boolean;
  readonly isPicked: boolean;
  /** Whether rows are being chosen, so that all show their boxes. */
  readonly isPicking: boolean;
  readonly actions: IRowActions;
}

/** One sandbox; drawn again only when something about it changes. */
export const Row = React.memo((props: IRowProps): React.JSX.Element => {
  const { sandbox, activity, readings, notebook, isCurrent, isPicked, isPicking, actions } = props;
  const id = sandbox.sandboxID;
  const name = displayName(sandbox);
  const state = stateText(sandbox, activity);
  const openMenuBelow = (node: Element) => {
    const { left, bottom } = node.getBoundingClientRect();
    actions.openMenu(id, left, bottom);
  };
  const action = (icon: LabIcon, label: string, command: string) => (
    <Action icon={icon} label={label} tab={isCurrent} onClick={() => { actions.run(command, id); }} />
  );
  const classes = ['sbx-Row', activity && 'sbx-mod-busy', notebook !== null && 'sbx-mod-notebook', isPicked && 'sbx-mod-picked', isPicking && 'sbx-mod-picking'];
  return (
    <li
      className={classes.filter(Boolean).join(' ')}
      data-sandbox={id}
      tabIndex={isCurrent ? 0 : -1}
      aria-label={`${name}, ${state}${notebook === null ? '' : `, ${trans.__('this notebook')}`}${isPicked ? `, ${trans.__('chosen')}` : ''}`}
      aria-busy={activity !== undefined}
      onFocus={() => { actions.focus(id); }}
      onKeyDown={event => {
        onRowKey(event, props, openMenuBelow);
      }}
      onClick={event => {
        actions.pick({ id, toggles: event.ctrlKey || event.metaKey, extends: event.shiftKey });
      }}
      onDoubleClick={() => {
        actions.run(CommandIDs.openTerminal, id);
      }}
      onContextMenu={event => {
        event.preventDefault();
        event.stopPropagation();
        actions.openMenu(id, event.clientX, event.clientY);
      }}
    >
      <span className="sbx-Row-lead">
        <span className={`sbx-Dot sbx-mod-${activity?.kind ?? sandbox.state}`} title={state} />
        <input
          type="checkbox"
          className="sbx-Row-check"
          tabIndex={-1}
          checked={isPicked}
          aria-label={trans.__('Choose %1', name)}
          onClick={event => {
            event.stopPropagation();
          }}
          onDoubleClick={event => {
            event.stopPropagation();
          }}
          onChange={event => {
            actions.pick({ id, toggles: true, extends: (event.nativeEvent as MouseEvent).shiftKey });
          }}
        />
      </span>
      <span className="sbx-Row-name" title={nameTitle(sandbox)}>
        {name}
      </span>
      {notebook !== null && (
        <span className="sbx-Chip" title={trans.__('The kernel of %1 runs in this sandbox.', notebook)}>
          {trans.__('This notebook')}
        </span>
      )}
      <RowFacts sandbox={sandbox} activity={activity} />
      {sandbox.state === 'running' && readings.length > 0 && <RowChart readings={readings} />}
      {activity !== undefined && <RowProgress sandboxId={id} activity={activity} cancel={actions.cancel} />}
      <span className="sbx-Row-actions">
        {action(terminalIcon, trans.__('Open terminal'), CommandIDs.openTerminal)}
        {action(folderIcon, trans.__('Browse files'), CommandIDs.browseFiles)}
        {action(metricsIcon, trans.__('Show metrics'), CommandIDs.openMetrics)}
        <Action icon={ellipsesIcon} label={trans.__('More actions')} tab={isCurrent} popup onClick={openMenuBelow} />
      </span>
    </li>
  );
});
Row.displayName = 'Row';

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
  readonly activity: IActivity | undefined;
}

/** The template, age and remaining time; the only part of a row that is drawn every second. */
function RowFacts({ sandbox, activity }: IFactsProps): React.JSX.Element {
  const now = React.useContext(ClockContext);
  const left = (Date.parse(sandbox.endAt) - now) / 1000;
  const age = (now - Date.parse(sandbox.startedAt)) / 1000;
  const template = templateName(sandbox);
  const owner = sandbox.owner === undefined ? undefined : visible(sandbox.owner);
  return (
    <span className="sbx-Row-facts">
      {owner !== undefined && (
        <span className="sbx-Row-owner" title={trans.__('Owner %1', owner)}>
          {owner}
        </span>
      )}
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
  readonly sandboxId: string;
  readonly activity: IActivity;
  readonly cancel: IRowActions['cancel'];
}

/** Shows the progress of an operation, if the engine reports it, and a Cancel button. */
function RowProgress({ sandboxId, activity, cancel }: IProgressProps): React.JSX.Element | null {
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
            cancel(sandboxId, operationID);
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
  { sandbox, actions }: IRowProps,
  openMenuBelow: (node: Element) => void
): void {
  if (event.target !== event.currentTarget) {
    return;
  }
  const id = sandbox.sandboxID;
  const keys: Record<string, () => void> = {
    ArrowDown: () => { actions.move(1); },
    ArrowUp: () => { actions.move(-1); },
    Home: () => { actions.move('first'); },
    End: () => { actions.move('last'); },
    Enter: () => { actions.run(CommandIDs.openTerminal, id); },
    ' ': () => { actions.pick({ id, toggles: !event.shiftKey, extends: event.shiftKey }); },
    F2: () => { actions.run(CommandIDs.rename, id); },
    Delete: () => { actions.kill(id); },
    ContextMenu: () => { openMenuBelow(event.currentTarget); }
  };
  const isAll = event.key.toLowerCase() === 'a' && (event.ctrlKey || event.metaKey);
  const key = event.key === 'F10' && event.shiftKey ? 'ContextMenu' : event.key;
  const action = isAll ? actions.pickAll : keys[key];
  if (action) {
    event.preventDefault();
    event.stopPropagation();
    action();
  }
}

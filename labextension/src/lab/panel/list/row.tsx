import { ellipsesIcon, folderIcon, terminalIcon } from '@jupyterlab/ui-components';
import type { LabIcon } from '@jupyterlab/ui-components';
import * as React from 'react';

import { formatBytes } from '../../../components/format';
import { trans } from '../../../components/translation';
import type { ISandbox } from '../../../protocol/sandboxes';
import { displayName } from '../../../protocol/sandboxes';
import { CommandIDs } from '../../commandIds';
import { metricsIcon } from '../../icons';
import type { IActivity } from '../../activities';
import { activityText } from '../activityText';
import { useInView } from './inView';
import { RowFacts, stateText } from './rowFacts';
import type { SecondClock } from './secondClock';
import type { IPick } from './selection';
import type { Usage } from './usage';

/** The actions of rows; one object for all of them, which never changes. */
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
  readonly clock: SecondClock;
  readonly usage: Usage;
  /** The name of the notebook in front, if its kernel runs here. */
  readonly notebook: string | null;
  readonly isCurrent: boolean;
  readonly isPicked: boolean;
  readonly actions: IRowActions;
}

/** One sandbox; drawn again only when something about it changes. */
export const Row = React.memo((props: IRowProps): React.JSX.Element => {
  const { sandbox, activity, clock, usage, notebook, isCurrent, isPicked, actions } = props;
  const node = React.useRef<HTMLLIElement>(null);
  const id = sandbox.sandboxID;
  const name = displayName(sandbox);
  const state = stateText(sandbox, activity);
  const openMenuBelow = (node: Element) => {
    const { left, bottom } = node.getBoundingClientRect();
    actions.openMenu(id, left, bottom);
  };
  const classes = ['sbx-Row', activity && 'sbx-mod-busy', notebook !== null && 'sbx-mod-notebook', isPicked && 'sbx-mod-picked'];
  return (
    <li
      ref={node}
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
      <span className="sbx-Row-title">
        <span className="sbx-Row-name" title={nameTitle(sandbox)}>
          {name}
        </span>
        {notebook !== null && (
          <span className="sbx-Chip" title={trans.__('The kernel of %1 runs in this sandbox.', notebook)}>
            {trans.__('This notebook')}
          </span>
        )}
      </span>
      <RowFacts row={node} sandbox={sandbox} activity={activity} clock={clock} usage={usage} />
      {activity !== undefined && <RowProgress sandboxId={id} activity={activity} cancel={actions.cancel} />}
      <RowActions row={node} sandboxId={id} isCurrent={isCurrent} actions={actions} openMenu={openMenuBelow} />
    </li>
  );
});
Row.displayName = 'Row';

interface IActionsProps {
  readonly row: React.RefObject<HTMLElement>;
  readonly sandboxId: string;
  readonly isCurrent: boolean;
  readonly actions: IRowActions;
  readonly openMenu: (node: Element) => void;
}

/** The buttons of a row, once it has been in view: their icons are most of what a long list has to draw. */
function RowActions({ row, sandboxId, isCurrent, actions, openMenu }: IActionsProps): React.JSX.Element {
  const isInView = useInView(row, false);
  const wasInView = React.useRef(false);
  wasInView.current ||= isInView || isCurrent;
  const action = (icon: LabIcon, label: string, command: string) => (
    <Action icon={icon} label={label} tab={isCurrent} onClick={() => { actions.run(command, sandboxId); }} />
  );
  return (
    <span className="sbx-Row-actions">
      {wasInView.current && (
        <>
          {action(terminalIcon, trans.__('Open terminal'), CommandIDs.openTerminal)}
          {action(folderIcon, trans.__('Browse files'), CommandIDs.browseFiles)}
          {action(metricsIcon, trans.__('Show metrics'), CommandIDs.openMetrics)}
          <Action icon={ellipsesIcon} label={trans.__('More actions')} tab={isCurrent} popup onClick={openMenu} />
        </>
      )}
    </span>
  );
}

function nameTitle(sandbox: ISandbox): string {
  const name = displayName(sandbox);
  return name === sandbox.sandboxID ? name : `${name}\n${sandbox.sandboxID}`;
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

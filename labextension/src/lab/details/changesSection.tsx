import { caretDownIcon, caretRightIcon, closeIcon, collapseAllIcon, expandAllIcon, refreshIcon } from '@jupyterlab/ui-components';
import * as React from 'react';

import type { IChangeNode } from '../../components/files/changeTree';
import { changesIn, changeTree, directoriesOf, visibleNodes } from '../../components/files/changeTree';
import { formatBytes } from '../../components/format';
import { trans } from '../../components/translation';
import { messageOf } from '../../protocol/errors';
import type { IChange, IDiff } from '../../protocol/observations';
import type { ITemplate } from '../../protocol/sandboxes';
import { templateLabel, visible } from '../../protocol/sandboxes';
import { Choice } from '../controls';
import { isMissing, usePolled } from '../polled';
import { Failed, IconAction, Loading, Nothing, Notice } from '../states';
import { WindowedRows } from '../windowedRows';
import { ChangeMark } from './changeMark';
import { FileChange } from './fileChange';
import type { ISectionProps } from './sections';
import { Unread } from './unread';

const ROW_HEIGHT = 24;
/** With more changes than these, directories are closed at first. */
const MANY = 200;

/** Shows the changes since the template or a snapshot as a tree, and the change of one file. */
export function ChangesSection(props: ISectionProps): React.JSX.Element {
  const { api, sandboxes, sandboxId, isActive, folder, setFolder } = props;
  const [since, setSince] = React.useState('');
  const [chosen, choose] = React.useState<IChange | null>(null);
  const read = React.useCallback(() => {
    const query = since === '' ? {} : { since };
    return api.get('/sandboxes/{sandbox_id}/diff', { path: { sandbox_id: sandboxId }, query });
  }, [api, sandboxId, since]);
  const { value, error, isRefreshing, refresh } = usePolled(read, 0, isActive);
  const [round, next] = React.useReducer((count: number) => count + 1, 0);
  const compareAgain = () => {
    refresh();
    next();
  };
  const shown = React.useMemo(() => (value === null ? null : { ...value, changes: changesIn(value.changes, folder) }), [value, folder]);
  const snapshots = useSnapshots(sandboxes, isActive);
  return (
    <div className="sbx-Section">
      <div className="sbx-Section-bar">
        <span className="sbx-Section-label">
          <span aria-hidden="true">{trans.__('Since')}</span>
          <Choice
            label={trans.__('Since')}
            value={since}
            choose={snapshot => {
              choose(null);
              setSince(snapshot);
            }}
            options={[
              ['', trans.__('its creation')],
              ...snapshots.map(snapshot => [snapshot.templateID, trans.__('snapshot %1', templateLabel(snapshot))] as const)
            ]}
          />
        </span>
        {folder !== '' && (
          <span className="sbx-Scope">
            <span className="sbx-Scope-path" title={visible(folder)}>
              {trans.__('in %1', visible(folder))}
            </span>
            <IconAction icon={closeIcon} label={trans.__('List the changes everywhere')} onClick={() => { setFolder(''); }} />
          </span>
        )}
        <span className="sbx-Section-count" role="status">
          {shown === null ? '' : isRefreshing ? trans.__('Comparing the files…') : changeCounts(shown.changes)}
        </span>
        <IconAction icon={refreshIcon} label={trans.__('Compare again')} disabled={props.hasEnded} onClick={compareAgain} />
      </div>
      <ChangesBody {...props} since={since} value={shown} error={error} isRefreshing={isRefreshing} refresh={compareAgain} round={round} chosen={chosen} choose={choose} />
    </div>
  );
}

interface IBodyProps extends ISectionProps {
  readonly since: string;
  readonly value: IDiff | null;
  readonly error: unknown;
  readonly isRefreshing: boolean;
  readonly refresh: () => void;
  /** Number of times the files were compared again. */
  readonly round: number;
  readonly chosen: IChange | null;
  readonly choose: (change: IChange) => void;
}

function ChangesBody(props: IBodyProps): React.JSX.Element {
  const { value, error, isRefreshing, refresh, chosen, choose, hasEnded } = props;
  if (value === null) {
    return hasEnded ? (
      <Unread />
    ) : error === null ? (
      <Loading label={trans.__('Comparing the files')} />
    ) : (
      <Failed title={isMissing(error) ? trans.__('This deployment cannot compare files') : trans.__('The files could not be compared')} error={error} retry={refresh} isRetrying={isRefreshing} />
    );
  }
  if (value.changes.length === 0) {
    const title = props.folder === '' ? trans.__('Nothing changed') : trans.__('Nothing changed in %1', visible(props.folder));
    return <Nothing title={title} text={trans.__('Files that the sandbox adds, changes or deletes are listed here.')} />;
  }
  return (
    <>
      {error !== null && <Notice text={messageOf(error)} action={trans.__('Retry')} onAction={refresh} />}
      {value.truncated && <Notice text={trans.__('Only the first %1 changes are listed.', value.changes.length)} />}
      <div className="sbx-Changes">
        <ChangeTree key={props.folder} changes={value.changes} chosen={chosen} choose={choose} />
        {chosen !== null && <FileChange key={`${chosen.path} ${props.since} ${props.round}`} {...props} change={nowOf(chosen, value.changes)} />}
      </div>
    </>
  );
}

/** The change of the same file in a newer comparison, which may be of another kind. */
function nowOf(chosen: IChange, changes: readonly IChange[]): IChange {
  return changes.find(({ path }) => path === chosen.path) ?? chosen;
}

/** The snapshots to compare with; empty while they are not known. */
function useSnapshots(sandboxes: ISectionProps['sandboxes'], isActive: boolean): readonly ITemplate[] {
  const read = React.useCallback(async () => (await sandboxes.templates()).filter(({ kind }) => kind === 'snapshot'), [sandboxes]);
  return usePolled(read, 0, isActive).value ?? [];
}

function changeCounts(changes: readonly IChange[]): string {
  const count = (kind: IChange['change']) => changes.filter(({ change }) => change === kind).length;
  return [
    [count('added'), trans.__('added')],
    [count('changed'), trans.__('changed')],
    [count('deleted'), trans.__('deleted')]
  ]
    .filter(([number]) => number !== 0)
    .map(([number, word]) => `${String(number)} ${String(word)}`)
    .join(', ');
}

interface ITreeProps {
  readonly changes: readonly IChange[];
  readonly chosen: IChange | null;
  readonly choose: (change: IChange) => void;
}

/** The tree; arrow keys move, open and close, Enter shows the change of a file. */
function ChangeTree({ changes, chosen, choose }: ITreeProps): React.JSX.Element {
  const tree = React.useMemo(() => changeTree(changes), [changes]);
  const [closed, setClosed] = React.useState<ReadonlySet<string>>(() => new Set(changes.length > MANY ? directoriesOf(tree) : []));
  const [path, setPath] = React.useState<string | null>(chosen?.path ?? null);
  const rows = React.useMemo(() => visibleNodes(tree, closed), [tree, closed]);
  const at = Math.max(0, rows.findIndex(({ node }) => node.path === path));
  const current = rows[at];
  const setOpen = (node: IChangeNode, isOpen: boolean) => {
    const next = new Set(closed);
    if (isOpen) {
      next.delete(node.path);
    } else {
      next.add(node.path);
    }
    setClosed(next);
  };
  const activate = (node: IChangeNode) => {
    setPath(node.path);
    if (node.children.length > 0) {
      setOpen(node, closed.has(node.path));
    } else if (node.change !== null) {
      choose(node.change);
    }
  };
  const onKey = (event: React.KeyboardEvent<HTMLElement>) => {
    const move = (to: number) => { setPath(rows[Math.min(Math.max(0, to), rows.length - 1)]?.node.path ?? null); };
    const keys: Record<string, () => void> = {
      ArrowDown: () => { move(at + 1); },
      ArrowUp: () => { move(at - 1); },
      Home: () => { move(0); },
      End: () => { move(rows.length - 1); },
      ArrowRight: () => { if (current !== undefined && current.node.children.length > 0) { if (closed.has(current.node.path)) { setOpen(current.node, true); } else { move(at + 1); } } },
      ArrowLeft: () => {
        if (current !== undefined && current.node.children.length > 0 && !closed.has(current.node.path)) {
          setOpen(current.node, false);
        } else if (current !== undefined) {
          move(parentOf(rows, at));
        }
      },
      Enter: () => { if (current !== undefined) { activate(current.node); } }
    };
    const action = keys[event.key];
    if (action !== undefined && event.target === event.currentTarget) {
      event.preventDefault();
      action();
    }
  };
  return (
    <div className="sbx-Changes-list">
      <div className="sbx-Changes-tools">
        <IconAction icon={expandAllIcon} label={trans.__('Open all directories')} onClick={() => { setClosed(new Set()); }} />
        <IconAction icon={collapseAllIcon} label={trans.__('Close all directories')} onClick={() => { setClosed(new Set(directoriesOf(tree))); }} />
      </div>
      <WindowedRows
        className="sbx-Changes-tree"
        role="tree"
        tabIndex={0}
        aria-label={trans.__('Changed files')}
        aria-activedescendant={current === undefined ? undefined : `sbx-change-${at}`}
        count={rows.length}
        rowHeight={ROW_HEIGHT}
        current={path === null ? -1 : at}
        onKeyDown={onKey}
        row={index => {
          const row = rows[index];
          return row === undefined ? null : (
            <ChangeLine
              key={row.node.path}
              id={`sbx-change-${index}`}
              node={row.node}
              depth={row.depth}
              isOpen={!closed.has(row.node.path)}
              isCurrent={row.node.path === path}
              activate={() => { activate(row.node); }}
            />
          );
        }}
      />
    </div>
  );
}

/** The row of the directory that a row is in; the first row for those at the top. */
function parentOf(rows: ReturnType<typeof visibleNodes>, at: number): number {
  const depth = rows[at]?.depth ?? 1;
  let above = at;
  while (above > 0 && (rows[above]?.depth ?? 1) >= depth) {
    above -= 1;
  }
  return above;
}

interface IChangeLineProps {
  readonly id: string;
  readonly node: IChangeNode;
  readonly depth: number;
  readonly isOpen: boolean;
  readonly isCurrent: boolean;
  readonly activate: () => void;
}

function ChangeLine({ id, node, depth, isOpen, isCurrent, activate }: IChangeLineProps): React.JSX.Element {
  const { change, children } = node;
  const Twist = isOpen ? caretDownIcon : caretRightIcon;
  return (
    <div
      id={id}
      className={`sbx-Change${isCurrent ? ' sbx-mod-current' : ''}`}
      role="treeitem"
      aria-level={depth}
      aria-selected={isCurrent}
      aria-expanded={children.length > 0 ? isOpen : undefined}
      style={{ height: ROW_HEIGHT, paddingInlineStart: 8 + (depth - 1) * 16 }}
      onClick={activate}
    >
      <span className="sbx-Change-twist">{children.length > 0 && <Twist.react tag="span" />}</span>
      <span className={`sbx-Change-name${change === null ? '' : ` sbx-mod-${change.change}`}`} title={visible(node.path)}>
        {visible(node.name)}
      </span>
      {children.length > 0 && <span className="sbx-Change-count">{node.count}</span>}
      {change !== null && children.length === 0 && change.type === 'file' && change.change !== 'deleted' && (
        <span className="sbx-Change-count">{formatBytes(change.size)}</span>
      )}
      {change !== null && <ChangeMark change={change} />}
    </div>
  );
}

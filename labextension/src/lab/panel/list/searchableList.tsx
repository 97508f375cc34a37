import { closeIcon } from '@jupyterlab/ui-components';
import type { CommandRegistry } from '@lumino/commands';
import * as React from 'react';

import { trans } from '../../../components/translation';
import type { ISandbox } from '../../../protocol/sandboxes';
import { CommandIDs } from '../../commandIds';
import { Choice, Filter } from '../../controls';
import { killIcon, metricsIcon, pauseIcon } from '../../icons';
import type { CurrentNotebook } from '../../notebooks/currentNotebook';
import type { Sandboxes } from '../../sandboxes';
import { IconAction } from '../../states';
import { SandboxList } from './sandboxList';
import type { GroupKey, IGroup, SortKey } from './sandboxOrder';
import { grouped, matching, sorted, steady, withFirst } from './sandboxOrder';
import type { ISelection } from './selection';
import { NOTHING, remaining } from './selection';
import type { Usage } from './usage';

/** Up to this many sandboxes are seen at a glance, without a search. */
const FEW = 5;

interface ISearchableListProps {
  readonly sandboxes: Sandboxes;
  readonly usage: Usage;
  readonly items: readonly ISandbox[];
  readonly commands: CommandRegistry;
  readonly notebook: CurrentNotebook;
  readonly openMenu: (sandboxId: string, x: number, y: number) => void;
}

/** The list; with more than a few sandboxes, with a search, a choice of the order and of groups. */
export function SearchableList(props: ISearchableListProps): React.JSX.Element {
  const [search, setSearch] = React.useState('');
  const [order, setOrder] = React.useState<SortKey>('newest');
  const [group, setGroup] = React.useState<GroupKey>('none');
  const [selection, select] = React.useState<ISelection>(NOTHING);
  const { sandboxes, usage, items, commands, notebook } = props;
  const isLong = items.length > FEW;
  const matched = isLong ? matching(items, search) : items;
  const wanted = isLong ? withFirst(sorted(matched, order, id => usage.of(id).at(-1)), notebook.sandboxId) : matched;
  const { shown, hold } = useSteady(wanted, `${isLong ? order : ''} ${search}`);
  const hasOwners = items.some(({ owner }) => owner !== undefined);
  const isPossible = isLong && (group !== 'owner' || hasOwners);
  const kernels = { current: notebook.sandboxId, has: (id: string) => sandboxes.hasKernel(id) };
  const groups: readonly IGroup[] = grouped(shown, isPossible ? group : 'none', kernels);
  const chosen = remaining(selection, shown.map(({ sandboxID }) => sandboxID));
  const classes = ['sbx-Panel-list', chosen.ids.size > 0 && 'sbx-mod-picking', sandboxes.error !== null && 'sbx-mod-stale', isPossible && group === 'owner' && 'sbx-mod-byOwner'];
  return (
    <>
      {isLong && <ListControls {...{ search, setSearch, order, setOrder, group, setGroup, hasOwners }} />}
      <div
        className={classes.filter(Boolean).join(' ')}
        onPointerMove={hold}
        onKeyDown={event => {
          if (event.key === 'Escape' && chosen.ids.size > 0) {
            event.preventDefault();
            select(NOTHING);
          }
        }}
      >
        {shown.length === 0 && items.length > 0 ? (
          <p className="sbx-Panel-none">{trans.__('No sandbox matches “%1”.', search)}</p>
        ) : (
          <SandboxList {...props} groups={groups} selection={chosen} select={select} />
        )}
      </div>
      {chosen.ids.size > 0 && <SelectionBar sandboxes={sandboxes} ids={[...chosen.ids]} commands={commands} clear={() => { select(NOTHING); }} />}
    </>
  );
}

/** Milliseconds for which rows keep their places after the pointer moved over them. */
const HOLD = 3000;

/** Keeps the rows in their places while somebody is about to click one, unless they chose another order. */
function useSteady(wanted: readonly ISandbox[], choice: string): { shown: readonly ISandbox[]; hold: () => void } {
  const before = React.useRef<{ ids: readonly string[]; choice: string }>({ ids: [], choice });
  const until = React.useRef(0);
  const timer = React.useRef(0);
  const [, draw] = React.useReducer((count: number) => count + 1, 0);
  const isHeld = performance.now() < until.current && before.current.choice === choice;
  const shown = isHeld ? steady(wanted, before.current.ids) : wanted;
  before.current = { ids: shown.map(({ sandboxID }) => sandboxID), choice };
  const hold = React.useCallback(() => {
    until.current = performance.now() + HOLD;
    window.clearTimeout(timer.current);
    timer.current = window.setTimeout(draw, HOLD + 10);
  }, []);
  React.useEffect(
    () => () => {
      window.clearTimeout(timer.current);
    },
    []
  );
  return { shown, hold };
}

interface IControlsProps {
  readonly search: string;
  readonly setSearch: (search: string) => void;
  readonly order: SortKey;
  readonly setOrder: (order: SortKey) => void;
  readonly group: GroupKey;
  readonly setGroup: (group: GroupKey) => void;
  /** Whether some are other users'. */
  readonly hasOwners: boolean;
}

function ListControls({ search, setSearch, order, setOrder, group, setGroup, hasOwners }: IControlsProps): React.JSX.Element {
  return (
    <div className="sbx-Panel-controls">
      <Filter
        label={trans.__('Filter the sandboxes')}
        title={hasOwners ? trans.__('Filter by name, id, template or owner') : trans.__('Filter by name, id or template')}
        placeholder={trans.__('Filter')}
        value={search}
        change={setSearch}
      />
      <Choice
        label={trans.__('Order of the sandboxes')}
        value={order}
        choose={setOrder}
        options={[
          ['newest', trans.__('Newest')],
          ['name', trans.__('Name')],
          ['left', trans.__('Time left')],
          ['cpu', trans.__('CPU')],
          ['memory', trans.__('Memory')]
        ]}
      />
      <Choice
        label={trans.__('Groups of the sandboxes')}
        value={group === 'owner' && !hasOwners ? 'none' : group}
        choose={setGroup}
        options={[
          ['none', trans.__('No groups')],
          ['template', trans.__('By template')],
          ['state', trans.__('By state')],
          ['notebook', trans.__('By notebook')],
          ...(hasOwners ? [['owner', trans.__('By owner')] as const] : [])
        ]}
      />
    </div>
  );
}

interface IBarProps {
  readonly sandboxes: Sandboxes;
  readonly ids: readonly string[];
  readonly commands: CommandRegistry;
  readonly clear: () => void;
}

/** The actions on all selected sandboxes. */
function SelectionBar({ sandboxes, ids, commands, clear }: IBarProps): React.JSX.Element {
  const canPause = ids.some(id => sandboxes.find(id)?.state === 'running');
  const run = (command: string) => () => void commands.execute(command, { sandboxes: [...ids] });
  return (
    <div className="sbx-Selection" role="toolbar" aria-label={trans.__('Chosen sandboxes')}>
      <span className="sbx-Selection-count">{trans.__('%1 chosen', ids.length)}</span>
      {ids.length > 1 && <IconAction icon={metricsIcon} label={trans.__('Compare their metrics')} onClick={run(CommandIDs.compareMetrics)} />}
      {canPause && <IconAction icon={pauseIcon} label={trans.__('Pause them…')} onClick={run(CommandIDs.pauseSeveral)} />}
      <IconAction icon={killIcon} label={trans.__('Kill them…')} onClick={run(CommandIDs.killSeveral)} />
      <IconAction icon={closeIcon} label={trans.__('Choose none')} onClick={clear} />
    </div>
  );
}

import type { CommandRegistry } from '@lumino/commands';
import * as React from 'react';

import { trans } from '../../../components/translation';
import type { ISandbox } from '../../../protocol/sandboxes';
import { CommandIDs } from '../../commandIds';
import type { CurrentNotebook } from '../../notebooks/currentNotebook';
import type { Sandboxes } from '../../sandboxes';
import { useKeptFocus } from './keptFocus';
import type { IRowActions } from './row';
import { Row } from './row';
import type { IGroup } from './sandboxOrder';
import { SecondClock } from './secondClock';
import type { IPick, ISelection } from './selection';
import { picked, remaining } from './selection';
import type { Usage } from './usage';

interface IListProps {
  readonly sandboxes: Sandboxes;
  readonly usage: Usage;
  readonly groups: readonly IGroup[];
  readonly commands: CommandRegistry;
  readonly notebook: CurrentNotebook;
  readonly selection: ISelection;
  readonly select: (selection: ISelection) => void;
  readonly openMenu: (sandboxId: string, x: number, y: number) => void;
}

/**
 * The rows; arrow keys move between them, Enter opens a terminal, F2 renames, Space chooses, Delete asks to kill.
 */
export function SandboxList(props: IListProps): React.JSX.Element {
  const { sandboxes, usage, groups, notebook, selection } = props;
  const list = React.useRef<HTMLDivElement>(null);
  const shown = groups.flatMap(group => group.items.map(({ sandboxID }) => sandboxID));
  const [current, setCurrent] = React.useState<string | null>(null);
  const active = current !== null && shown.includes(current) ? current : (shown[0] ?? null);
  const actions = useActions({ ...props, shown, active, setCurrent, list });
  const keepsFocus = useKeptFocus(list, shown);
  const clock = React.useMemo(() => new SecondClock(() => sandboxes.now()), [sandboxes]);
  const row = (sandbox: ISandbox) => (
    <Row
      key={sandbox.sandboxID}
      sandbox={sandbox}
      activity={sandboxes.activity(sandbox.sandboxID)}
      clock={clock}
      usage={usage}
      notebook={notebook.sandboxId === sandbox.sandboxID ? notebook.name : null}
      isCurrent={sandbox.sandboxID === active}
      isPicked={selection.ids.has(sandbox.sandboxID)}
      actions={actions}
    />
  );
  return (
    <div ref={list} {...keepsFocus}>
      {sandboxes.creating > 0 && (
        <ul className="sbx-List sbx-mod-creating" aria-label={trans.__('Sandboxes that are being created')}>
          <CreatingRow count={sandboxes.creating} />
        </ul>
      )}
      {groups.map(({ title, items }) => (
        <React.Fragment key={title}>
          {title !== '' && (
            <h3 className="sbx-Group" title={title}>
              <span>{title}</span>
              <span className="sbx-Panel-count">{items.length}</span>
            </h3>
          )}
          <ul className="sbx-List" aria-label={title === '' ? trans.__('Sandboxes') : title}>
            {items.map(row)}
          </ul>
        </React.Fragment>
      ))}
    </div>
  );
}

interface IActionState extends IListProps {
  readonly shown: readonly string[];
  readonly active: string | null;
  readonly setCurrent: (sandboxId: string) => void;
  readonly list: React.RefObject<HTMLDivElement>;
}

/** The actions of the rows: one object, so that rows are not drawn again, which sees the newest state. */
function useActions(state: IActionState): IRowActions {
  const last = React.useRef(state);
  last.current = state;
  return React.useMemo<IRowActions>(() => {
    const focus = (at: number) => {
      const { shown, setCurrent, list } = last.current;
      const id = shown[at];
      if (id !== undefined) {
        setCurrent(id);
        list.current?.querySelector<HTMLElement>(`[data-sandbox="${CSS.escape(id)}"]`)?.focus();
      }
    };
    return {
      run: (command, sandbox) => void last.current.commands.execute(command, { sandbox }),
      openMenu: (id, x, y) => { last.current.openMenu(id, x, y); },
      focus: id => { last.current.setCurrent(id); },
      move: step => {
        const { shown, active } = last.current;
        const at = active === null ? -1 : shown.indexOf(active);
        focus(step === 'first' ? 0 : step === 'last' ? shown.length - 1 : at + step);
      },
      pick: (pick: IPick) => {
        const { selection, select, shown } = last.current;
        select(picked(remaining(selection, shown), pick, shown));
      },
      pickAll: () => { last.current.select({ ids: new Set(last.current.shown), anchor: last.current.active }); },
      kill: id => {
        const { selection, commands } = last.current;
        const isOneOfSeveral = selection.ids.size > 1 && selection.ids.has(id);
        void (isOneOfSeveral
          ? commands.execute(CommandIDs.killSeveral, { sandboxes: [...selection.ids] })
          : commands.execute(CommandIDs.kill, { sandbox: id }));
      },
      // If it is too late to cancel, the operation itself reports how it ended.
      cancel: (id, operation) => { last.current.sandboxes.cancel(id, operation).catch(() => undefined); }
    };
  }, []);
}

function CreatingRow({ count }: { readonly count: number }): React.JSX.Element {
  return (
    <li className="sbx-Row sbx-mod-creating">
      <span className="sbx-Row-lead">
        <span className="sbx-Dot sbx-mod-resuming" />
      </span>
      <span className="sbx-Row-name">{count === 1 ? trans.__('Starting…') : trans.__('Starting %1 sandboxes…', count)}</span>
    </li>
  );
}

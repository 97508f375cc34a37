import type { LabIcon } from '@jupyterlab/ui-components';
import * as React from 'react';

import { trans } from '../../components/translation';
import { messageOf } from '../../protocol/errors';
import type { IPolled } from '../polled';
import { isMissing } from '../polled';
import { Failed, IconAction, Loading, Nothing, Notice } from '../states';

/** Stands for a fact that is not known. */
export const NONE = '–';

/** One thing that is stored, as a row. */
export interface IStoreRow {
  readonly id: string;
  readonly name: string;
  /** A tooltip with what there is no room for. */
  readonly title?: string;
  readonly tag?: string;
  readonly facts: readonly string[];
  readonly actions: readonly IRowAction[];
}

export interface IRowAction {
  readonly icon: LabIcon;
  readonly label: string;
  readonly run: () => void;
}

interface IStoreTableProps<T> {
  readonly label: string;
  readonly polled: IPolled<readonly T[]>;
  /** Texts for a deployment without such things, for an empty list, and for a list that cannot be read. */
  readonly texts: { readonly missing: string; readonly none: string; readonly hint: string; readonly failed: string };
  readonly columns: readonly string[];
  readonly row: (item: T) => IStoreRow;
  /** Shown above the rows. */
  readonly tools?: React.ReactNode;
}

/** The rows of one kind of stored things, with every state that they can be in. */
export function StoreTable<T>({ label, polled, texts, columns, row, tools }: IStoreTableProps<T>): React.JSX.Element {
  const { value, error, isRefreshing, refresh } = polled;
  if (value === null && error !== null) {
    return <Failed title={isMissing(error) ? texts.missing : texts.failed} error={error} retry={refresh} isRetrying={isRefreshing} />;
  }
  return (
    <div className="sbx-Section">
      {tools !== undefined && <div className="sbx-Section-bar">{tools}</div>}
      {error !== null && <Notice text={messageOf(error)} action={trans.__('Retry')} onAction={refresh} />}
      {value === null ? (
        <Loading label={label} />
      ) : value.length === 0 ? (
        <Nothing title={texts.none} text={texts.hint} />
      ) : (
        <div className="sbx-Store" role="table" aria-label={label} style={{ '--sbx-columns': columns.length } as React.CSSProperties}>
          <div className="sbx-Store-head" role="row">
            <span role="columnheader">{trans.__('Name')}</span>
            {columns.map(column => (
              <span key={column} role="columnheader" className="sbx-mod-number">
                {column}
              </span>
            ))}
            <span role="columnheader" className="sbx-mod-number">
              {trans.__('Actions')}
            </span>
          </div>
          {value.map(item => (
            <StoreRow key={row(item).id} {...row(item)} columns={columns} />
          ))}
        </div>
      )}
    </div>
  );
}

function StoreRow({ name, title, tag, facts, actions, columns }: IStoreRow & { readonly columns: readonly string[] }): React.JSX.Element {
  return (
    <div className="sbx-Store-row" role="row">
      <span className="sbx-Store-name" role="cell" title={title ?? name}>
        <span className="sbx-Store-text">{name}</span>
        {tag !== undefined && <span className="sbx-Tag">{tag}</span>}
      </span>
      {facts.map((fact, at) => (
        <span key={columns[at]} role="cell" className={`sbx-Store-fact sbx-mod-number${fact === NONE ? ' sbx-mod-none' : ''}`} data-column={columns[at]}>
          {fact}
        </span>
      ))}
      <span className="sbx-Store-actions" role="cell">
        {actions.map(({ icon, label, run }) => (
          <IconAction key={label} icon={icon} label={label} onClick={run} />
        ))}
      </span>
    </div>
  );
}

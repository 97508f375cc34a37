import * as React from 'react';
import type { LabIcon } from '@jupyterlab/ui-components';

import { trans } from '../components/translation';
import { messageOf, sentence } from '../protocol/errors';
import { splitMessage } from './help/readMore';
import { ReadMoreLine } from './help/readMoreLine';

/** A place for rows that are not known yet. */
export function Loading({ label }: { readonly label: string }): React.JSX.Element {
  return (
    <div className="sbx-Loading" role="status" aria-label={label}>
      {[0, 1, 2].map(row => (
        <div key={row} className="sbx-Loading-row" />
      ))}
    </div>
  );
}

interface IStateProps {
  readonly title: string;
  readonly text?: string;
  readonly icon?: LabIcon;
  readonly children?: React.ReactNode;
}

/** Says that there is nothing, and what can be done. */
export function Nothing({ title, text, icon: Icon, children }: IStateProps): React.JSX.Element {
  return (
    <div className="sbx-State">
      {Icon !== undefined && <Icon.react tag="span" className="sbx-State-icon" />}
      <p className="sbx-State-title">{title}</p>
      {text !== undefined && <p className="sbx-State-text">{text}</p>}
      {children}
    </div>
  );
}

interface IFailedProps {
  readonly title: string;
  readonly error: unknown;
  readonly retry: () => void;
  /** Whether it is being tried again. */
  readonly isRetrying?: boolean;
}

/** Says why there is nothing to show. */
export function Failed({ title, error, retry, isRetrying = false }: IFailedProps): React.JSX.Element {
  const { text, page } = splitMessage(sentence(messageOf(error)));
  return (
    <div className="sbx-State" role="alert">
      <p className="sbx-State-title">{title}</p>
      <p className="sbx-State-text">{text}</p>
      <ReadMoreLine page={page} />
      <button type="button" className="sbx-Button" aria-busy={isRetrying} onClick={retry}>
        {isRetrying ? trans.__('Trying…') : trans.__('Try again')}
      </button>
    </div>
  );
}

interface INoticeProps {
  readonly text: string;
  readonly action?: string;
  readonly onAction?: () => void;
}

/** One line above a view whose content is out of date. */
export function Notice({ text, action, onAction }: INoticeProps): React.JSX.Element {
  return (
    <div className="sbx-Notice" role="alert">
      <span title={text}>{text}</span>
      {action !== undefined && (
        <button type="button" className="sbx-TextButton" onClick={onAction}>
          {action}
        </button>
      )}
    </div>
  );
}

interface IIconActionProps {
  readonly icon: LabIcon;
  readonly label: string;
  readonly onClick: () => void;
  readonly disabled?: boolean;
  readonly pressed?: boolean;
  readonly tab?: number;
}

/** A button with an icon; its label is the tooltip and what screen readers say. */
export function IconAction({ icon: Icon, label, onClick, disabled, pressed, tab }: IIconActionProps): React.JSX.Element {
  return (
    <button
      type="button"
      className={`sbx-IconButton${pressed === true ? ' sbx-mod-pressed' : ''}`}
      title={label}
      aria-label={label}
      aria-pressed={pressed}
      disabled={disabled}
      tabIndex={tab}
      onClick={event => {
        event.stopPropagation();
        onClick();
      }}
      onDoubleClick={event => {
        event.stopPropagation();
      }}
    >
      <Icon.react tag="span" />
    </button>
  );
}

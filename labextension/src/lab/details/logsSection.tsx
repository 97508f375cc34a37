import { Clipboard } from '@jupyterlab/apputils';
import { copyIcon } from '@jupyterlab/ui-components';
import * as React from 'react';

import { entriesText, entryTime, fieldsText, LEVELS, matchingEntries } from '../../components/logText';
import { trans } from '../../components/translation';
import { messageOf } from '../../protocol/errors';
import type { ILogEntry, LogLevel } from '../../protocol/observations';
import { Choice, Filter } from '../controls';
import { followIcon } from '../icons';
import { isMissing, usePolled } from '../polled';
import { Failed, IconAction, Loading, Nothing, Notice } from '../states';
import { Unread } from './unread';
import type { ISectionProps } from './sections';

/** Milliseconds between two readings of the log. */
const INTERVAL = 2000;
/** A log scrolled to within this many pixels of its end follows it. */
const NEAR_END = 24;

const LEVEL_LABELS: Readonly<Record<LogLevel, () => string>> = {
  debug: () => trans.__('All levels'),
  info: () => trans.__('Info and above'),
  warn: () => trans.__('Warnings and errors'),
  error: () => trans.__('Errors')
};

/** The newest 1000 entries of the log, followed while its end is in view. */
export function LogsSection({ api, sandboxId, isActive, hasEnded }: ISectionProps): React.JSX.Element {
  const read = React.useCallback(
    async () => (await api.get('/sandboxes/{sandbox_id}/logs', { path: { sandbox_id: sandboxId } })).logs,
    [api, sandboxId]
  );
  const { value, error, isRefreshing, refresh } = usePolled(read, INTERVAL, isActive);
  const [search, setSearch] = React.useState('');
  const [least, setLeast] = React.useState<LogLevel>('debug');
  const [follows, setFollows] = React.useState(true);
  const shown = React.useMemo(() => matchingEntries(value ?? [], search, least), [value, search, least]);
  if (value === null) {
    return hasEnded ? (
      <Unread />
    ) : error === null ? (
      <Loading label={trans.__('Loading the log')} />
    ) : (
      <Failed title={isMissing(error) ? trans.__('This deployment has no logs') : trans.__('The log could not be read')} error={error} retry={refresh} isRetrying={isRefreshing} />
    );
  }
  return (
    <div className="sbx-Section">
      <div className="sbx-Section-bar">
        <Filter label={trans.__('Filter the log')} placeholder={trans.__('Filter')} value={search} change={setSearch} />
        <Choice
          label={trans.__('Least level')}
          value={least}
          choose={setLeast}
          options={LEVELS.map(level => [level, LEVEL_LABELS[level]()] as const)}
        />
        <span className="sbx-Section-count">
          {shown.length === value.length ? value.length : trans.__('%1 of %2', shown.length, value.length)}
        </span>
        <IconAction icon={followIcon} label={trans.__('Follow the log')} pressed={follows} onClick={() => { setFollows(!follows); }} />
        <IconAction
          icon={copyIcon}
          label={trans.__('Copy what is shown')}
          disabled={shown.length === 0}
          onClick={() => {
            Clipboard.copyToSystem(entriesText(shown));
          }}
        />
      </div>
      {error !== null && <Notice text={messageOf(error)} action={trans.__('Retry')} onAction={refresh} />}
      {shown.length === 0 ? (
        <Nothing title={value.length === 0 ? trans.__('The log is empty') : trans.__('No entry matches')} />
      ) : (
        <LogLines entries={shown} follows={follows} setFollows={setFollows} />
      )}
    </div>
  );
}

interface ILinesProps {
  readonly entries: readonly ILogEntry[];
  readonly follows: boolean;
  readonly setFollows: (follows: boolean) => void;
}

function LogLines({ entries, follows, setFollows }: ILinesProps): React.JSX.Element {
  const box = React.useRef<HTMLDivElement>(null);
  React.useLayoutEffect(() => {
    if (follows && box.current !== null) {
      box.current.scrollTop = box.current.scrollHeight;
    }
  }, [entries, follows]);
  return (
    <div
      className="sbx-Log"
      ref={box}
      role="log"
      aria-live="off"
      tabIndex={0}
      aria-label={trans.__('Log')}
      onScroll={event => {
        const { scrollHeight, scrollTop, clientHeight } = event.currentTarget;
        setFollows(scrollHeight - scrollTop - clientHeight < NEAR_END);
      }}
    >
      {entries.map((entry, at) => (
        <LogLine key={`${entry.timestamp} ${at}`} entry={entry} />
      ))}
    </div>
  );
}

const LogLine = React.memo(({ entry }: { readonly entry: ILogEntry }) => {
  const fields = fieldsText(entry);
  return (
    <div className={`sbx-Log-line sbx-mod-${entry.level}`}>
      <time dateTime={entry.timestamp} title={new Date(entry.timestamp).toLocaleString()}>
        {entryTime(entry.timestamp)}
      </time>
      <span className="sbx-Log-level">{entry.level}</span>
      <span className="sbx-Log-message">
        {entry.message}
        {fields !== '' && <span className="sbx-Log-fields"> {fields}</span>}
      </span>
    </div>
  );
});
LogLine.displayName = 'LogLine';

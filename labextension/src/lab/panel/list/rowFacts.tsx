import * as React from 'react';

import { formatAge, formatCountdown } from '../../../components/format';
import { trans } from '../../../components/translation';
import type { ISandbox } from '../../../protocol/sandboxes';
import { templateName, visible } from '../../../protocol/sandboxes';
import type { IActivity } from '../../activities';
import { activityText } from '../activityText';
import { useInView } from './inView';
import { RowChart } from './rowChart';
import type { SecondClock } from './secondClock';
import { followNothing, useNow } from './secondClock';
import type { Usage } from './usage';

/** A remaining time below this many seconds is shown as a warning. */
const SOON = 60;

interface IFactsProps {
  readonly row: React.RefObject<HTMLElement>;
  readonly sandbox: ISandbox;
  readonly activity: IActivity | undefined;
  readonly clock: SecondClock;
  readonly usage: Usage;
}

/**
 * The template, age, remaining time and use of a sandbox: the only parts of a row that change by themselves.
 *
 * They do so while the row is in view: hundreds of rows that count seconds would hold up the scrolling.
 */
export function RowFacts({ row, sandbox, activity, clock, usage }: IFactsProps): React.JSX.Element {
  const isInView = useInView(row, true);
  const now = useNow(clock, isInView);
  const follow = React.useCallback((draw: () => void) => usage.listen(draw), [usage]);
  const readings = React.useSyncExternalStore(isInView ? follow : followNothing, () => usage.of(sandbox.sandboxID));
  const { startedAt, endAt } = sandbox;
  // Formatting a date takes longer than all else here.
  const started = React.useMemo(() => trans.__('Started %1', new Date(startedAt).toLocaleString()), [startedAt]);
  const ends = React.useMemo(() => trans.__('Ends %1', new Date(endAt).toLocaleString()), [endAt]);
  const left = (Date.parse(endAt) - now) / 1000;
  const template = templateName(sandbox);
  const owner = sandbox.owner === undefined ? undefined : visible(sandbox.owner);
  return (
    <>
      <span className="sbx-Row-facts">
        {owner !== undefined && (
          <span className="sbx-Row-owner" title={trans.__('Owner %1', owner)}>
            {owner}
          </span>
        )}
        <span className="sbx-Row-template" title={trans.__('Template %1', template)}>
          {template}
        </span>
        <span title={started}>{trans.__('%1 old', formatAge((now - Date.parse(startedAt)) / 1000))}</span>
        {sandbox.state === 'paused' || activity !== undefined ? (
          <span className="sbx-Row-state">{stateText(sandbox, activity)}</span>
        ) : (
          <span className={left < SOON ? 'sbx-Row-left sbx-mod-soon' : 'sbx-Row-left'} title={ends}>
            {left > 0 ? trans.__('%1 left', formatCountdown(left)) : trans.__('ending')}
          </span>
        )}
      </span>
      {sandbox.state === 'running' && readings.length > 0 && <RowChart readings={readings} />}
    </>
  );
}

/** The state of a sandbox, or the activity on it, in words. */
export function stateText(sandbox: ISandbox, activity: IActivity | undefined): string {
  if (activity !== undefined) {
    return activityText(activity);
  }
  return sandbox.state === 'paused' ? trans.__('paused') : trans.__('running');
}

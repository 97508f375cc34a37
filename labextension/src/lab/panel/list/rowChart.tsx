import * as React from 'react';

import { formatBytes } from '../../../components/format';
import { sparkline } from '../../../components/metrics/sparkline';
import { trans } from '../../../components/translation';
import type { IReading } from '../../../protocol/runtime';

const WIDTH = 48;
const HEIGHT = 14;

/** The CPU and memory of the last minutes, each against its limit. */
export function RowChart({ readings }: { readonly readings: readonly IReading[] }): React.JSX.Element | null {
  const last = readings.at(-1);
  if (last === undefined) {
    return null;
  }
  const cpuLimit = Math.max(1, last.cpu_count) * 100;
  const used = last.cpu_used_pct.toFixed(0);
  const cpu = last.cpu_count > 1 ? trans.__('CPU %1 % of %2 cores', used, last.cpu_count) : trans.__('CPU %1 % of 1 core', used);
  const memory = trans.__('Memory %1 of %2', formatBytes(last.mem_used), formatBytes(last.mem_total));
  // One reading alone is drawn as a line, too.
  const shown = readings.length === 1 ? [last, last] : readings;
  return (
    <span className="sbx-Row-chart" title={`${cpu}\n${memory}`} role="img" aria-label={`${cpu}, ${memory}`}>
      <svg viewBox={`0 -1 ${WIDTH} ${HEIGHT + 2}`} aria-hidden="true">
        <polyline className="sbx-mod-memory" points={sparkline(shown.map(reading => reading.mem_used), last.mem_total, WIDTH, HEIGHT)} />
        <polyline className="sbx-mod-cpu" points={sparkline(shown.map(reading => reading.cpu_used_pct), cpuLimit, WIDTH, HEIGHT)} />
      </svg>
    </span>
  );
}

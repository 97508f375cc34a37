import type { IReading } from '../../protocol/runtime';
import { formatBytes } from '../format';
import type { ThemeRole } from '../theme';
import { trans } from '../translation';

/** Describes one plot of the readings. */
export interface IMeasure {
  readonly title: string;
  readonly role: ThemeRole;
  readonly value: (reading: IReading) => number;
  readonly limit: (reading: IReading) => number;
  readonly text: (value: number, limit: number) => string;
  readonly tick: (value: number) => string;
  /** The smallest part of the limit that the scale covers, so that noise does not look like load. */
  readonly least: number;
}

const ofBytes = (value: number, limit: number): string =>
  limit > 0 ? trans.__('%1 of %2', formatBytes(value), formatBytes(limit)) : formatBytes(value);

/** CPU, memory and disk; made for each chart, since the language is not known when the module is loaded. */
export const measures = (): readonly IMeasure[] => [
  {
    title: trans.__('CPU'),
    role: 'cpu',
    value: reading => reading.cpu_used_pct,
    limit: reading => Math.max(1, reading.cpu_count) * 100,
    text: (value, limit) =>
      limit === 100
        ? trans.__('%1 % of 1 core', value.toFixed(value < 10 ? 1 : 0))
        : trans.__('%1 % of %2 cores', value.toFixed(value < 10 ? 1 : 0), limit / 100),
    tick: value => `${value} %`,
    least: 0.1
  },
  {
    title: trans.__('Memory'),
    role: 'memory',
    value: reading => reading.mem_used,
    limit: reading => reading.mem_total,
    text: ofBytes,
    tick: formatBytes,
    least: 0.01
  },
  {
    title: trans.__('Disk'),
    role: 'disk',
    value: reading => reading.disk_used,
    limit: reading => reading.disk_total,
    text: ofBytes,
    tick: formatBytes,
    least: 0.01
  }
];

/** The end of the scale: the limit, or less while use is small, so that it can be seen. */
export function ceiling(max: number, limit: number, measure: IMeasure, showsLimit: boolean): number {
  const used = Number.isFinite(max) ? max : 0;
  if (showsLimit && limit > 0) {
    // A little above the limit, so that its line is not the frame.
    return Math.max(limit, used) * 1.05;
  }
  const least = limit > 0 ? limit * measure.least : 1;
  const wanted = Math.max(used * 1.5, least);
  return niceCeiling(limit > 0 && wanted > limit ? Math.max(limit, used) : wanted, measure.role === 'cpu');
}

/** Rounds up to 1, 2 or 5 times a power of ten, or for sizes to a power of two. */
export function niceCeiling(value: number, decimal: boolean): number {
  if (value <= 0) {
    return 1;
  }
  if (!decimal) {
    return 2 ** Math.ceil(Math.log2(value));
  }
  const power = 10 ** Math.floor(Math.log10(value));
  const step = [1, 2, 5, 10].find(candidate => candidate * power >= value) ?? 10;
  return step * power;
}

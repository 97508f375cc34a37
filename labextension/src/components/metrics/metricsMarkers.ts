import type { ILogEntry } from '../../protocol/observations';
import { trans } from '../translation';

export type MarkerKind = 'start' | 'pause' | 'resume' | 'memory' | 'snapshot';

/** Something that happened to a sandbox, to be marked in its charts. */
export interface IMarker {
  /** Unix seconds. */
  readonly time: number;
  readonly kind: MarkerKind;
}

/** The pattern of each kind of marker in the messages of the engine's log. */
const PATTERNS: readonly (readonly [MarkerKind, RegExp])[] = [
  ['memory', /out of memory/i],
  ['resume', /^sandbox resumed/i],
  ['pause', /^sandbox paused/i],
  ['start', /^sandbox started/i],
  ['snapshot', /^(a )?snapshot/i]
];

/** The starts, pauses, snapshots and shortages of memory in a log, oldest first. */
export function markersOf(entries: readonly ILogEntry[]): readonly IMarker[] {
  return entries.flatMap(({ message, timestamp }) => {
    const kind = PATTERNS.find(([, pattern]) => pattern.test(message))?.[0];
    const time = Date.parse(timestamp) / 1000;
    return kind === undefined || Number.isNaN(time) ? [] : [{ kind, time }];
  });
}

/** A marker in a word or two. */
export function markerLabel(kind: MarkerKind): string {
  const labels: Record<MarkerKind, () => string> = {
    start: () => trans.__('started'),
    pause: () => trans.__('paused'),
    resume: () => trans.__('resumed'),
    memory: () => trans.__('out of memory'),
    snapshot: () => trans.__('snapshot')
  };
  return labels[kind]();
}

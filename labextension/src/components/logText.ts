import type { ILogEntry, LogLevel } from '../protocol/observations';

/** The levels, from the least important. */
export const LEVELS: readonly LogLevel[] = ['debug', 'info', 'warn', 'error'];

/** The entries of at least a level whose text contains every word of `search`. */
export function matchingEntries(entries: readonly ILogEntry[], search: string, least: LogLevel): readonly ILogEntry[] {
  const words = search.toLowerCase().split(/\s+/).filter(Boolean);
  const floor = LEVELS.indexOf(least);
  return entries.filter(entry => {
    // A level that this page does not know is always shown.
    const level = LEVELS.indexOf(entry.level);
    const text = `${entry.message} ${fieldsText(entry)}`.toLowerCase();
    return (level < 0 || level >= floor) && words.every(word => text.includes(word));
  });
}

/** The fields of an entry as `name=value`, separated by spaces. */
export function fieldsText({ fields = {} }: ILogEntry): string {
  return Object.entries(fields)
    .map(([name, value]) => `${name}=${value}`)
    .join(' ');
}

/** The entries as lines of text, to copy. */
export function entriesText(entries: readonly ILogEntry[]): string {
  return entries
    .map(entry => [entry.timestamp, entry.level.toUpperCase(), entry.message, fieldsText(entry)].filter(Boolean).join(' '))
    .join('\n');
}

/** The time of day of an entry in the browser's time zone, with milliseconds. */
export function entryTime(timestamp: string): string {
  const time = new Date(timestamp);
  return Number.isNaN(time.getTime()) ? '' : `${time.toTimeString().slice(0, 8)}.${String(time.getMilliseconds()).padStart(3, '0')}`;
}

import type { IReading } from '../../protocol/runtime';

/** The readings of one sandbox under its name. */
export interface INamedReadings {
  readonly name: string;
  readonly readings: readonly IReading[];
}

const COLUMNS = ['cpu_used_pct', 'cpu_count', 'mem_used', 'mem_total', 'mem_cache', 'disk_used', 'disk_total'] as const;

/** The readings as a table for spreadsheets: one line each, sizes in bytes, times in UTC. */
export function metricsCsv(series: readonly INamedReadings[]): string {
  const lines = series.flatMap(({ name, readings }) =>
    readings.map(reading =>
      [new Date(reading.ts * 1000).toISOString(), quoted(name), ...COLUMNS.map(column => String(reading[column]))].join(',')
    )
  );
  return `${['time', 'sandbox', ...COLUMNS].join(',')}\r\n${lines.map(line => `${line}\r\n`).join('')}`;
}

/** A text as one field. Spreadsheets take a field for a formula that begins with one of these signs. */
function quoted(text: string): string {
  const plain = /^[=+\-@\t\r]/.test(text) ? `'${text}` : text;
  return `"${plain.replaceAll('"', '""')}"`;
}

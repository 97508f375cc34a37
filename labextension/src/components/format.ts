const UNITS = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];

/** Formats a size in the unit that leaves at most four digits: `1536` is `1.5 KiB`. */
export function formatBytes(bytes: number): string {
  if (!Number.isFinite(bytes) || bytes < 0) {
    return '–';
  }
  let value = bytes;
  let unit = 0;
  while (value >= 1024 && unit < UNITS.length - 1) {
    value /= 1024;
    unit += 1;
  }
  const digits = unit === 0 || value >= 100 ? 0 : 1;
  return `${value.toFixed(digits).replace(/\.0$/, '')} ${UNITS[unit] ?? ''}`;
}

/** Formats a duration in its two largest units without zeros: `3725` is `1 h 2 min`, `3600` is `1 h`. */
export function formatDuration(seconds: number): string {
  const total = Math.max(0, Math.floor(seconds));
  const [days, hours, minutes] = [Math.floor(total / 86400), Math.floor(total / 3600), Math.floor(total / 60)];
  if (days >= 1) {
    return twoUnits(days, 'd', hours % 24, 'h');
  }
  if (hours >= 1) {
    return twoUnits(hours, 'h', minutes % 60, 'min');
  }
  return minutes >= 1 ? twoUnits(minutes, 'min', total % 60, 's') : `${total} s`;
}

/** Formats a remaining time; below an hour as a clock, `47:05`, so that its width hardly changes. */
export function formatCountdown(seconds: number): string {
  const total = Math.max(0, Math.floor(seconds));
  return total < 3600
    ? `${Math.floor(total / 60)}:${String(total % 60).padStart(2, '0')}`
    : formatDuration(total);
}

/** Formats a duration in its largest unit only, where there is little room: `1 h`. */
export function formatAge(seconds: number): string {
  return formatDuration(seconds).split(' ').slice(0, 2).join(' ');
}

function twoUnits(large: number, largeUnit: string, small: number, smallUnit: string): string {
  return small === 0 ? `${large} ${largeUnit}` : `${large} ${largeUnit} ${small} ${smallUnit}`;
}

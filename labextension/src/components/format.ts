const UNITS = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];

/** A size in the unit that leaves at most four digits: `1536` is `1.5 KiB`. */
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

/** A length of time in its two largest units: `3725` is `1 h 2 min`; below an hour, seconds count. */
export function formatDuration(seconds: number): string {
  const total = Math.max(0, Math.floor(seconds));
  const [days, hours, minutes] = [Math.floor(total / 86400), Math.floor(total / 3600), Math.floor(total / 60)];
  if (days >= 1) {
    return `${days} d ${hours % 24} h`;
  }
  if (hours >= 1) {
    return `${hours} h ${minutes % 60} min`;
  }
  return minutes >= 1 ? `${minutes} min ${total % 60} s` : `${total} s`;
}

/** The same, one unit, for where there is little room: `1 h`. */
export function formatAge(seconds: number): string {
  const total = Math.max(0, Math.floor(seconds));
  if (total >= 86400) {
    return `${Math.floor(total / 86400)} d`;
  }
  if (total >= 3600) {
    return `${Math.floor(total / 3600)} h`;
  }
  return total >= 60 ? `${Math.floor(total / 60)} min` : `${total} s`;
}

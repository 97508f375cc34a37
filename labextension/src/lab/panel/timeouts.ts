/** The timeouts to choose from, in seconds. */
export const TIMEOUTS = [300, 900, 3600, 4 * 3600, 12 * 3600, 24 * 3600] as const;

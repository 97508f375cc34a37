/** The points of a small line chart, for a `polyline`: `values` from left to right, 0 at the bottom. */
export function sparkline(values: readonly number[], ceiling: number, width: number, height: number): string {
  const step = values.length > 1 ? width / (values.length - 1) : 0;
  const scale = ceiling > 0 ? height / ceiling : 0;
  return values
    .map((value, at) => {
      const y = height - Math.min(Math.max(value, 0) * scale, height);
      return `${rounded(at * step)},${rounded(y)}`;
    })
    .join(' ');
}

/** One digit after the point is less than a pixel. */
const rounded = (value: number): number => Math.round(value * 10) / 10;

import { structuredPatch } from 'diff';

/** A line of a comparison; `gap` stands for the lines between two changes that are alike. */
export interface ILine {
  readonly kind: 'same' | 'added' | 'removed' | 'gap';
  readonly text: string;
  /** Its number in the earlier and in the later text. */
  readonly before: number | null;
  readonly after: number | null;
}

/** Milliseconds that a comparison may take; texts can be made so that it takes for ever. */
const PATIENCE = 1500;
const CONTEXT = 3;
/** Lines that are shown; more would make the page slow. */
export const MAX_LINES = 5000;

/** The changed lines of two texts with those around them; `null` if comparing them takes too long. */
export function lineChanges(before: string, after: string): readonly ILine[] | null {
  const patch = structuredPatch('', '', before, after, '', '', { context: CONTEXT, timeout: PATIENCE });
  if (patch === undefined) {
    return null;
  }
  const lines: ILine[] = [];
  for (const hunk of patch.hunks) {
    let [old, now] = [hunk.oldStart, hunk.newStart];
    if (lines.length > 0 || old > 1 || now > 1) {
      lines.push({ kind: 'gap', text: '', before: null, after: null });
    }
    for (const line of hunk.lines) {
      const text = line.slice(1);
      switch (line[0]) {
        case '+':
          lines.push({ kind: 'added', text, before: null, after: now++ });
          break;
        case '-':
          lines.push({ kind: 'removed', text, before: old++, after: null });
          break;
        case ' ':
          lines.push({ kind: 'same', text, before: old++, after: now++ });
          break;
        default:
        // The note about a missing end of line is not a line.
      }
    }
  }
  return lines;
}

import * as React from 'react';

import { trans } from '../../components/translation';
import type { IChange } from '../../protocol/observations';

/** One letter for the kind of change, with its word for screen readers and as a tooltip. */
export function ChangeMark({ change }: { readonly change: IChange }): React.JSX.Element {
  const words: Record<IChange['change'], () => string> = {
    added: () => trans.__('added'),
    changed: () => trans.__('changed'),
    deleted: () => trans.__('deleted')
  };
  const word = words[change.change]();
  return (
    <span className={`sbx-Change-mark sbx-mod-${change.change}`} title={word} aria-label={word} role="img">
      {word.slice(0, 1).toUpperCase()}
    </span>
  );
}

import * as React from 'react';

import { trans } from '../../components/translation';
import { Nothing } from '../states';

/** Stands where a section was opened only after its sandbox had ended, or was paused. */
export function Unread(): React.JSX.Element {
  return <Nothing title={trans.__('Nothing was read before')} text={trans.__('What was opened before can still be seen.')} />;
}

import * as React from 'react';

import { readMore } from './readMore';

/** Opens a page of the documentation; nothing without one. */
export function ReadMoreLine({ page }: { readonly page: string | undefined }): React.JSX.Element {
  const line = React.useRef<HTMLSpanElement>(null);
  React.useEffect(() => {
    line.current?.replaceChildren(...(page === undefined ? [] : [readMore(page)]));
  }, [page]);
  return <span ref={line} />;
}

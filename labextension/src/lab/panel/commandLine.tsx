import * as React from 'react';

import { command } from './isolationDetails';

/** A command line with a button that copies it; nothing without one. */
export function CommandLine({ text }: { readonly text: string | undefined }): React.JSX.Element {
  const line = React.useRef<HTMLDivElement>(null);
  React.useEffect(() => {
    line.current?.replaceChildren(...(text === undefined ? [] : [command(text)]));
  }, [text]);
  return <div ref={line} className="sbx-State-command" />;
}

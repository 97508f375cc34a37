import { Clipboard } from '@jupyterlab/apputils';
import * as React from 'react';

import { element, iconButton } from '../../components/dom';
import * as icons from '../../components/icons';
import { trans } from '../../components/translation';

/** Shows a command line with a button that copies it. */
export function copyableCommand(text: string): HTMLElement {
  const copy = iconButton(icons.copy, trans.__('Copy'), () => {
    Clipboard.copyToSystem(text);
  });
  return element('div', 'sbx-Command', {}, element('code', '', {}, text), copy);
}

/** A command line with a button that copies it; nothing without one. */
export function CommandLine({ text }: { readonly text: string | undefined }): React.JSX.Element {
  const line = React.useRef<HTMLDivElement>(null);
  React.useEffect(() => {
    line.current?.replaceChildren(...(text === undefined ? [] : [copyableCommand(text)]));
  }, [text]);
  return <div ref={line} className="sbx-State-command" />;
}

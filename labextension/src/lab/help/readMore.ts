import { element } from '../../components/dom';
import { trans } from '../../components/translation';

type Opener = (page: string) => void;

let open: Opener | null = null;

/** Sets what opens a page of the documentation; before that, messages name the command that prints it. */
export function setHelp(opener: Opener | null): void {
  open = opener;
}

/** A page of the documentation by its name; `undefined` for what is no name of one. */
export function pageNamed(name: string | undefined): string | undefined {
  return name !== undefined && /^[\w-]+$/.test(name) ? name : undefined;
}

/** A button that opens a page; what is called before may close a dialog. */
export function readMore(page: string, before: () => void = () => undefined): HTMLElement {
  const opener = open;
  if (opener === null) {
    return element('span', '', {}, trans.__('Read more: %1', `jupyter sbx help ${page}`));
  }
  const button = element('button', 'sbx-TextButton', { type: 'button', 'data-page': page }, trans.__('Read more'));
  button.addEventListener('click', () => {
    before();
    opener(page);
  });
  return button;
}

const NAMED = / ?\(jupyter sbx help ([\w-]+)\)/;

/** A message of the server without the page that it names, the page, and what opens it. */
export function splitMessage(message: string): { readonly text: string; readonly page?: string; readonly open?: () => void } {
  const page = NAMED.exec(message)?.[1];
  const opener = open;
  if (page === undefined || opener === null) {
    return { text: message };
  }
  return { text: message.replace(NAMED, ''), page, open: () => { opener(page); } };
}

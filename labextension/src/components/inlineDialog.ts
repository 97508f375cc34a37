import { element } from './dom';
import { trans } from './translation';

export interface IInlineDialogOptions {
  readonly text: string;
  /** What the button that says yes does. */
  readonly yes: string;
  /** Marks a yes that cannot be undone; the focus then starts at the other button. */
  readonly isDanger?: boolean;
  /** Asks for a line of text, which starts with this. */
  readonly value?: string;
}

/**
 * Asks inside a view, since a page around it may have no dialogs: VS Code's has none.
 *
 * One question at a time: a new one takes back the one before.
 */
export class InlineDialog {
  /** `successor` finds where the focus goes when what had it was drawn again meanwhile. */
  constructor(
    readonly node: HTMLElement,
    private readonly successor: (before: HTMLElement) => HTMLElement | null = () => null
  ) {
    node.classList.add('sbx-InlineDialog');
    node.hidden = true;
  }

  /** The text, `''` for a plain yes, `null` when the user changed their mind. */
  ask(options: IInlineDialogOptions): Promise<string | null> {
    this.answer?.(null);
    const before = document.activeElement as HTMLElement | null;
    const form = element('form', 'sbx-InlineDialog-form');
    this.node.setAttribute('role', options.value === undefined ? 'alertdialog' : 'dialog');
    this.node.setAttribute('aria-label', options.text);
    const input =
      options.value === undefined
        ? null
        : element('input', 'sbx-InlineDialog-input', { value: options.value, spellcheck: 'false', 'aria-label': options.text });
    const yes = element('button', `sbx-Button${options.isDanger ? ' sbx-mod-danger' : ''}`, { type: 'submit' }, options.yes);
    const no = element('button', 'sbx-Button sbx-mod-plain', { type: 'button' }, trans.__('Cancel'));
    form.append(element('span', 'sbx-InlineDialog-text', {}, options.text), ...(input ? [input] : []), no, yes);
    this.node.replaceChildren(form);
    this.node.hidden = false;
    input?.select();
    (input ?? (options.isDanger ? no : yes)).focus();
    return new Promise(resolve => {
      const answer = (value: string | null) => {
        if (this.answer === answer) {
          this.answer = null;
          const hadFocus = this.node.contains(document.activeElement);
          this.node.hidden = true;
          this.node.replaceChildren();
          if (hadFocus && before !== null) {
            (before.isConnected ? before : this.successor(before))?.focus();
          }
        }
        resolve(value);
      };
      this.answer = answer;
      form.addEventListener('submit', event => {
        event.preventDefault();
        answer(input?.value.trim() ?? '');
      });
      no.addEventListener('click', () => {
        answer(null);
      });
      form.addEventListener('keydown', event => {
        // The page around us has shortcuts of its own.
        event.stopPropagation();
        if (event.key === 'Escape') {
          event.preventDefault();
          answer(null);
        }
      });
    });
  }

  dispose(): void {
    this.answer?.(null);
  }

  private answer: ((value: string | null) => void) | null = null;
}

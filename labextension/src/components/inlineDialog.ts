import { element } from './dom';
import { trans } from './translation';

export interface IInlineDialogOptions {
  readonly text: string;
  /** Label of the button that agrees. */
  readonly yes: string;
  /** Agreeing cannot be undone; the focus then starts at Cancel. */
  readonly isDanger?: boolean;
  /** Initial text of an input; without it the dialog has none. */
  readonly value?: string;
}

/**
 * A dialog inside a view, for pages that have no dialogs, such as VS Code's.
 *
 * A new question cancels the one before it.
 */
export class InlineDialog {
  /** `successor` finds the element to focus when the one that had the focus was replaced meanwhile. */
  constructor(
    readonly node: HTMLElement,
    private readonly successor: (before: HTMLElement) => HTMLElement | null = () => null
  ) {
    node.classList.add('sbx-InlineDialog');
    node.hidden = true;
  }

  /** Resolves to the text, `''` when the user agrees without an input, or `null` when they cancel. */
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

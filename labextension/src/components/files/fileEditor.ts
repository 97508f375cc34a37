import { messageOf } from '../../protocol/errors';
import { element, iconButton } from '../dom';
import * as icons from '../icons';
import { trans } from '../translation';
import { basename } from './paths';
import { InlineDialog } from '../inlineDialog';

export interface IEditorActions {
  save(text: string): Promise<void>;
  close(): void;
}

/** A plain editor for one text file, with a Save button (also Ctrl+S) and the result of the last save. */
export class FileEditor {
  constructor(
    readonly node: HTMLElement,
    path: string,
    private saved: string,
    private readonly actions: IEditorActions
  ) {
    node.classList.add('sbx-FileEditor');
    this.name = basename(path);
    const name = element('span', 'sbx-FileEditor-name', { title: path }, this.name);
    this.state = element('span', 'sbx-FileEditor-state', { role: 'status' });
    this.saveButton = element('button', 'sbx-Button', { type: 'button' }, trans.__('Save'));
    this.saveButton.addEventListener('click', () => void this.save());
    const close = iconButton(icons.close, trans.__('Close %1', basename(path)), () => {
      void this.close();
    });
    this.text = element('textarea', 'sbx-FileEditor-text', {
      'aria-label': path,
      spellcheck: 'false',
      autocapitalize: 'off',
      wrap: 'off'
    });
    this.text.value = saved;
    this.text.addEventListener('input', this.update);
    this.text.addEventListener('keydown', event => {
      // The page around us has shortcuts of its own on nearly every key.
      event.stopPropagation();
      if ((event.ctrlKey || event.metaKey) && event.key === 's') {
        event.preventDefault();
        void this.save();
      }
    });
    const header = element('div', 'sbx-FileEditor-header', {}, name, this.state, this.saveButton, close);
    this.dialog = new InlineDialog(element('div', ''));
    node.append(header, this.dialog.node, this.text);
    this.update();
  }

  dispose(): void {
    this.dialog.dispose();
    this.node.remove();
  }

  focus(): void {
    this.text.focus();
  }

  /** The text as it is now, saved or not. */
  get content(): string {
    return this.text.value;
  }

  /** Whether the editor may close: nothing is unsaved, or the user agrees to discard it. */
  async mayLeave(): Promise<boolean> {
    if (this.text.value === this.saved) {
      return true;
    }
    const text = trans.__('%1 has changes that are not saved.', this.name);
    return (await this.dialog.ask({ text, yes: trans.__('Discard them'), isDanger: true })) !== null;
  }

  private async close(): Promise<void> {
    if (await this.mayLeave()) {
      this.actions.close();
    }
  }

  /** Saves; what is typed and saved meanwhile is saved after it, never before. */
  private async save(): Promise<void> {
    if (this.isSaving) {
      this.savesAgain = true;
      return;
    }
    const text = this.text.value;
    this.isSaving = true;
    this.disableSave();
    this.state.textContent = trans.__('Saving…');
    try {
      await this.actions.save(text);
      this.saved = text;
      this.isSaving = false;
      this.update();
    } catch (reason) {
      this.isSaving = false;
      this.saveButton.disabled = false;
      this.state.textContent = messageOf(reason);
    }
    if (this.savesAgain) {
      this.savesAgain = false;
      await this.save();
    }
  }

  /** A button that is disabled loses the focus, which the text takes. */
  private disableSave(): void {
    const hadFocus = document.activeElement === this.saveButton;
    this.saveButton.disabled = true;
    if (hadFocus) {
      this.text.focus();
    }
  }

  private readonly update = (): void => {
    if (this.isSaving) {
      return;
    }
    const changed = this.text.value !== this.saved;
    this.saveButton.disabled = !changed;
    this.state.textContent = changed ? trans.__('Not saved') : '';
  };

  private isSaving = false;
  private savesAgain = false;
  private readonly name: string;
  private readonly dialog: InlineDialog;
  private readonly text: HTMLTextAreaElement;
  private readonly state: HTMLElement;
  private readonly saveButton: HTMLButtonElement;
}

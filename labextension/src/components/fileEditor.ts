import { sentenceOf } from '../protocol/errors';
import { element, iconButton } from './dom';
import * as icons from './icons';
import { basename } from './paths';

export interface IEditorActions {
  save(text: string): Promise<void>;
  close(): void;
}

/** One text file: a plain editor with Save (also Ctrl+S) and what became of the last save. */
export class FileEditor {
  constructor(
    readonly node: HTMLElement,
    path: string,
    private saved: string,
    private readonly actions: IEditorActions
  ) {
    node.classList.add('sbx-FileEditor');
    const name = element('span', 'sbx-FileEditor-name', { title: path }, basename(path));
    this.state = element('span', 'sbx-FileEditor-state', { role: 'status' });
    this.saveButton = element('button', 'sbx-Button', { type: 'button' }, 'Save');
    this.saveButton.addEventListener('click', () => void this.save());
    const close = iconButton(icons.close, `Close ${basename(path)}`, () => {
      this.close();
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
    node.append(header, this.text);
    this.update();
  }

  dispose(): void {
    this.node.remove();
  }

  private close(): void {
    if (this.text.value === this.saved || window.confirm('Close without saving the changes?')) {
      this.actions.close();
    }
  }

  private async save(): Promise<void> {
    const text = this.text.value;
    this.saveButton.disabled = true;
    this.state.textContent = 'Saving…';
    try {
      await this.actions.save(text);
      this.saved = text;
      this.update();
    } catch (reason) {
      this.saveButton.disabled = false;
      this.state.textContent = sentenceOf(reason);
    }
  }

  private readonly update = (): void => {
    const changed = this.text.value !== this.saved;
    this.saveButton.disabled = !changed;
    this.state.textContent = changed ? 'Not saved' : '';
  };

  private readonly text: HTMLTextAreaElement;
  private readonly state: HTMLElement;
  private readonly saveButton: HTMLButtonElement;
}

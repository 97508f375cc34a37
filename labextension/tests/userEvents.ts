/** What a user does in a view, as the events that a browser makes of it. */

export function press(target: Element | null, key: string, modifiers: KeyboardEventInit = {}): void {
  target?.dispatchEvent(new KeyboardEvent('keydown', { key, bubbles: true, cancelable: true, ...modifiers }));
}

/** Replaces the text of a field. */
export function enter(field: HTMLInputElement | HTMLTextAreaElement, text: string): void {
  field.value = text;
  field.dispatchEvent(new Event('input', { bubbles: true }));
}

/** The only button of that name that is shown, by its text or its label. */
export function button(node: Element, name: string): HTMLButtonElement {
  const found = [...node.querySelectorAll('button')].filter(
    candidate =>
      (candidate.getAttribute('aria-label') ?? candidate.textContent) === name && candidate.closest('[hidden]') === null
  );
  if (found.length !== 1 || !found[0]) {
    throw new Error(`${found.length} buttons are named ${name}`);
  }
  return found[0];
}

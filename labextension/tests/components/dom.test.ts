import { describe, expect, it } from 'vitest';

import { element, iconButton } from '../../src/components/dom';

describe('elements', () => {
  it('take text as text, never as HTML', () => {
    const node = element('p', 'one', { title: '<b>' }, '<img src=x>');
    expect(node.querySelector('img')).toBeNull();
    expect(node.textContent).toBe('<img src=x>');
    expect(node.title).toBe('<b>');
  });

  it('say what a button with an icon does, and do not click what is below', () => {
    const clicked: string[] = [];
    const button = iconButton('M0 0', 'Close', () => clicked.push('button'));
    const row = element('div', '', {}, button);
    row.addEventListener('click', () => clicked.push('row'));
    button.click();

    expect(button.getAttribute('aria-label')).toBe('Close');
    expect(button.querySelector('svg')?.getAttribute('aria-hidden')).toBe('true');
    expect(clicked).toEqual(['button']);
  });
});

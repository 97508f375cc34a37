import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import { IsolationPopover } from '../../../src/lab/panel/isolationDetails';
import { press } from '../../userEvents';

// JupyterLab's own modules load in a browser only; the popover takes the clipboard from there.
vi.mock('@jupyterlab/apputils', () => ({ Clipboard: {} }));

describe('the popover of the isolation badge', () => {
  let badge: HTMLButtonElement;
  let elsewhere: HTMLButtonElement;
  let popover: IsolationPopover;

  beforeEach(() => {
    badge = document.createElement('button');
    elsewhere = document.createElement('button');
    document.body.replaceChildren(badge, elsewhere);
    popover = new IsolationPopover(null, badge);
    popover.open();
  });

  afterEach(() => {
    popover.dispose();
  });

  it('stays open when the page moves the focus', () => {
    elsewhere.focus();
    expect(popover.isDisposed).toBe(false);
  });

  it('closes when Tab leaves it', () => {
    press(document.activeElement, 'Tab');
    elsewhere.focus();
    expect(popover.isDisposed).toBe(true);
  });

  it('closes with Escape and gives the focus back', () => {
    press(document.activeElement, 'Escape');
    expect(popover.isDisposed).toBe(true);
    expect(document.activeElement).toBe(badge);
  });
});

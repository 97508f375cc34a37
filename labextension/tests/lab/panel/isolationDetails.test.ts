import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import { IsolationPopover, isolationDetails } from '../../../src/lab/panel/isolationDetails';
import type { IServerInfo } from '../../../src/protocol/sandboxes';
import { press } from '../../userEvents';

// JupyterLab's own modules load in a browser only; the popover takes the clipboard from there.
vi.mock('@jupyterlab/apputils', () => ({ Clipboard: {} }));

describe('the details of the isolation', () => {
  /** The text of each missing part. */
  function missing(...parts: readonly object[]): (string | null)[] {
    const info = { isolation: { tier: 'landlock', missing: parts } } as unknown as IServerInfo;
    return [...isolationDetails(info).querySelectorAll('.sbx-Isolation-missing')].map(part => part.textContent);
  }

  it('name the page that says more about a missing part', () => {
    const [text] = missing({ what: 'no namespaces', remedy: 'do this', page: 'containers' });
    expect(text).toBe('Missingno namespacesdo thisRead more: jupyter sbx help containers');
  });

  it('name no page where the server names none, or another command', () => {
    const part = { what: 'no namespaces', remedy: 'do this' };
    for (const text of missing(part, { ...part, page: 'x; rm -r ~' }, { ...part, page: '' })) {
      expect(text).toBe('Missingno namespacesdo this');
    }
  });
});

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

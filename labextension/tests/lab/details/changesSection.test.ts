import * as React from 'react';
import { flushSync } from 'react-dom';
import { createRoot } from 'react-dom/client';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import { ChangesSection } from '../../../src/lab/details/changesSection';
import { button, press } from '../../userEvents';
import { waitFor } from '../../waiting';

vi.mock('@jupyterlab/ui-components', () => {
  class LabIcon {
    readonly react = () => null;
  }
  const icon = new LabIcon();
  return {
    LabIcon,
    caretDownIcon: icon,
    caretRightIcon: icon,
    closeIcon: icon,
    collapseAllIcon: icon,
    copyIcon: icon,
    downloadIcon: icon,
    expandAllIcon: icon,
    folderIcon: icon,
    refreshIcon: icon
  };
});

const changed = { path: '/a.txt', change: 'added', type: 'file', size: 3 };

describe('the changes of a sandbox', () => {
  const host = document.createElement('div');
  const root = createRoot(host);
  const file = { text: 'one' };
  const act = (work: () => void) => { flushSync(work); };

  beforeEach(() => {
    document.body.replaceChildren(host);
    const props = {
      api: { get: () => Promise.resolve({ changes: [changed], truncated: false }) },
      sandboxes: {
        templates: () => Promise.resolve([]),
        transport: () => ({ readAtMost: () => Promise.resolve(new TextEncoder().encode(file.text)) })
      },
      sandboxId: 'a',
      isActive: true,
      hasEnded: false,
      folder: ''
    };
    act(() => { root.render(React.createElement(ChangesSection, props as never)); });
  });

  afterEach(() => {
    root.unmount();
  });

  it('are compared again with the file that is shown', async () => {
    await waitFor(() => { expect(host.querySelector('[role=tree]')).not.toBeNull(); });
    act(() => { press(host.querySelector('[role=tree]'), 'End'); });
    act(() => { press(host.querySelector('[role=tree]'), 'Enter'); });
    const shown = () => host.querySelector('.sbx-FileChange')?.textContent;
    await waitFor(() => { expect(shown()).toContain('one'); });

    file.text = 'two';
    act(() => { button(host, 'Compare again').click(); });
    await waitFor(() => { expect(shown()).toContain('two'); });
  });
});

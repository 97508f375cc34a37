import { describe, expect, it, vi } from 'vitest';

import { LauncherCards, whyNoKernels } from '../../../src/lab/notebooks/launcherCards';
import type { ISpecs } from '../../../src/lab/notebooks/sandboxedKernels';

const SPECS = {
  specs: {
    kernelspecs: {
      python3: { display_name: 'Python 3' },
      sbx: {
        display_name: 'Python 3 (sandbox)',
        metadata: { kernel_provisioner: { provisioner_name: 'sbx-provisioner' } }
      }
    }
  }
} as unknown as ISpecs;

function card(label: string): HTMLElement {
  const node = document.createElement('div');
  node.className = 'jp-LauncherCard';
  node.title = label;
  node.innerHTML = `<div class="jp-LauncherCard-label"><p>${label}</p></div>`;
  return node;
}

describe('the launcher’s cards of sandboxed kernels', () => {
  it('are disabled with the reason, and enabled again', () => {
    const root = document.createElement('div');
    const [plain, sandboxed] = [card('Python 3'), card('Python 3 (sandbox)')];
    root.append(plain, sandboxed);
    document.body.append(root);
    const refused = vi.fn();
    const started = vi.fn();
    plain.addEventListener('click', started);
    sandboxed.addEventListener('click', started);
    const cards = new LauncherCards(root, SPECS, refused);

    cards.reason = 'no ports';
    expect(sandboxed.getAttribute('aria-disabled')).toBe('true');
    expect(sandboxed.title).toBe('no ports');
    expect(plain.hasAttribute('aria-disabled')).toBe(false);
    sandboxed.click();
    expect(refused).toHaveBeenCalledWith('no ports');
    expect(started).not.toHaveBeenCalled();
    sandboxed.dispatchEvent(new KeyboardEvent('keydown', { key: 'Enter', bubbles: true }));
    expect(refused).toHaveBeenCalledTimes(2);
    plain.click();
    expect(started).toHaveBeenCalledTimes(1);

    cards.reason = undefined;
    expect(sandboxed.hasAttribute('aria-disabled')).toBe(false);
    expect(sandboxed.title).toBe('Python 3 (sandbox)');
    sandboxed.click();
    expect(started).toHaveBeenCalledTimes(2);
  });

  it('are disabled in the Landlock tier without its loopback interface only', () => {
    expect(whyNoKernels({ tier: 'landlock' })).toContain('no ports');
    expect(whyNoKernels({ tier: 'landlock', loopback: true })).toBeUndefined();
    expect(whyNoKernels({ tier: 'namespaces' })).toBeUndefined();
    expect(whyNoKernels(null)).toBeUndefined();
  });
});

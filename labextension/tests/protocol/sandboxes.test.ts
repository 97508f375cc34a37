import { describe, expect, it } from 'vitest';

import type { ISandbox } from '../../src/protocol/sandboxes';
import { displayName, templateLabel, templateName } from '../../src/protocol/sandboxes';

describe('names of sandboxes and templates', () => {
  it('names a sandbox by its name, else by its id', () => {
    const sandbox = { sandboxID: 'i1', metadata: { name: ' mine ' } } as unknown as ISandbox;
    expect(displayName(sandbox)).toBe('mine');
    expect(displayName({ ...sandbox, metadata: {} })).toBe('i1');
  });

  it('shows what would turn a name around', () => {
    const sandbox = { sandboxID: 'i1', metadata: { name: '\u202egnp.exe' } } as unknown as ISandbox;
    expect(displayName(sandbox)).toBe('\ufffdgnp.exe');
  });

  it('leaves out what every template of this machine is called', () => {
    const template = { templateID: 't', names: ['local/kept:default'], kind: 'snapshot' as const };
    expect(templateLabel(template)).toBe('kept');
    expect(templateLabel({ ...template, names: ['team/kept:v2'] })).toBe('team/kept:v2');
  });

  it('names a template by its alias, else by its id', () => {
    const sandbox = { templateID: 't1', alias: 'base' } as unknown as ISandbox;
    expect(templateName(sandbox)).toBe('base');
    expect(templateName({ ...sandbox, alias: undefined })).toBe('t1');
  });
});

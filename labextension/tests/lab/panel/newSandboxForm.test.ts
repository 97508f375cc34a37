import { describe, expect, it } from 'vitest';

import { lastChoices, rememberChoices } from '../../../src/lab/panel/lastChoices';
import { NewSandboxForm } from '../../../src/lab/panel/newSandboxForm';
import { DEFAULTS } from '../../../src/lab/settings';

function form(last = {}) {
  const made = new NewSandboxForm(DEFAULTS, last);
  const control = (label: string) => {
    const field = [...made.node.querySelectorAll('label')].find(node => node.textContent?.includes(label));
    return field?.querySelector('input, select, textarea') as HTMLInputElement | HTMLSelectElement | HTMLTextAreaElement;
  };
  return { made, control };
}

describe('the form for a new sandbox', () => {
  it('asks for nothing that has a default', () => {
    expect(form().made.getValue()).toEqual({ template: 'base', timeout: 3600, onTimeout: 'kill' });
  });

  it('begins with the last choices', () => {
    const { made } = form({ template: 'mine', timeout: 120, internet: false, onTimeout: 'pause' });
    expect(made.getValue()).toEqual({ template: 'mine', timeout: 120, internet: false, onTimeout: 'pause' });
  });

  it('offers templates and snapshots that can be used, with their size', () => {
    const { made, control } = form({ template: 'snap1' });
    made.suggest([
      { templateID: 't1', names: ['local/base:default'], kind: 'template', cpuCount: 2, memoryMB: 1024 },
      { templateID: 't2', names: ['broken'], kind: 'template', buildStatus: 'error' },
      { templateID: 'snap1', names: ['kept'], kind: 'snapshot', cpuCount: 1, memoryMB: 512 }
    ]);
    const template = control('Template') as HTMLSelectElement;
    expect([...template.options].map(({ value, text }) => [value, text])).toEqual([
      ['base', 'base'],
      ['snap1', 'kept']
    ]);
    expect(made.getValue().template).toBe('snap1');
    expect(made.node.textContent).toContain('1 core and 512 MiB of memory');
    template.value = 'base';
    template.dispatchEvent(new Event('change'));
    expect(made.node.textContent).toContain('2 cores and 1 GiB of memory');
  });

  it('takes variables and volumes, and says which line is no variable', () => {
    const { made, control } = form();
    made.offerVolumes([{ volumeID: 'v1', name: 'kept' }]);
    const environment = control('Environment');
    environment.value = 'A=1';
    made.node.querySelector<HTMLInputElement>('.sbx-Form-volume input[type=checkbox]')?.click();
    expect(made.getValue()).toMatchObject({ envs: { A: '1' }, volumes: [{ name: 'kept', path: '/mnt/kept' }] });

    const seen: boolean[] = [];
    made.node.addEventListener('input', () => { seen.push(environment.checkValidity()); });
    const type = (text: string) => {
      environment.value = text;
      environment.dispatchEvent(new Event('input', { bubbles: true }));
      return made.node.textContent;
    };
    // A dialog whose form has an invalid field cannot be accepted.
    expect(type('oops')).toContain('This line is not NAME=value: oops');
    expect(seen.at(-1)).toBe(false);
    expect(type('A=1')).not.toContain('oops');
    expect(seen.at(-1)).toBe(true);
  });

  it('says where volumes come from when there are none', () => {
    const { made } = form();
    made.offerVolumes([]);
    expect(made.node.textContent).toContain('There are none');
  });
});

describe('the last choices', () => {
  function storage() {
    const kept = new Map<string, string>();
    return { getItem: (key: string) => kept.get(key) ?? null, setItem: (key: string, value: string) => void kept.set(key, value) };
  }

  it('are remembered without names and variables', () => {
    const store = storage();
    rememberChoices({ name: 'x', template: 'base', timeout: 60, onTimeout: 'pause', envs: { TOKEN: 'hush' } }, store);
    expect(lastChoices(store)).toEqual({ template: 'base', timeout: 60, onTimeout: 'pause' });
  });

  it('are none where nothing or nonsense is kept', () => {
    expect(lastChoices(storage())).toEqual({});
    expect(lastChoices({ getItem: () => '{"timeout":"x","template":3,"onTimeout":"sleep"}' })).toEqual({});
    expect(lastChoices({ getItem: () => 'nonsense' })).toEqual({});
    rememberChoices({}, { setItem: () => { throw new Error('full'); } });
  });
});

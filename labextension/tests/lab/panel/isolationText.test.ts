import { describe, expect, it } from 'vitest';

import { idsText, isolationSummary, networkText, servedByText, tierText } from '../../../src/lab/panel/isolationText';

describe('how isolation is described', () => {
  it('says in the tooltip what is watched and what is not limited', () => {
    const text = isolationSummary({
      tier: 'landlock',
      limits: { memory: 'cgroup v2', disk: 'watchdog', cpu: 'none', inodes: 'new-thing' },
      limit_words: { memory: 'limited', disk: 'watched', cpu: 'not limited' }
    });
    expect(text).toContain('which of your files exist');
    expect(text).toContain('Disk: watched');
    expect(text).toContain('CPU: not limited');
    expect(text).toContain('Number of files: not limited');
    expect(text).not.toContain('Memory');
  });

  it('says where sandboxes share ids of the machine, and not where each has its own', () => {
    expect(isolationSummary({ tier: 'landlock', ids: 'shared' })).toContain('Ids shared');
    expect(isolationSummary({ tier: 'namespaces', ids: 'own' })).not.toContain('shared');
    expect(idsText('shared')).toContain('one sandbox can use up for all');
    expect(idsText('own')).toContain('for that sandbox alone');
    expect(idsText(undefined)).toBe('Not known.');
  });

  it('says where root serves clients, and what that means', () => {
    expect(isolationSummary({ tier: 'namespaces', served_by: 'root' })).toContain('served by root');
    expect(isolationSummary({ tier: 'namespaces', served_by: 'separate' })).not.toContain('root');
    expect(servedByText('root')).toContain('everything on the machine');
    expect(servedByText('separate')).toContain('without privileges');
    expect(servedByText('user')).toContain('what that user may');
    expect(servedByText(undefined)).toBe('Not known.');
  });

  it('tells what there is of a network, and names what it does not know', () => {
    expect(networkText('none')).toContain('cannot open connections');
    expect(networkText('full')).toContain('packet filter');
    expect(networkText('carrier-pigeon')).toBe('carrier-pigeon');
    expect(networkText(undefined)).toBe('Not known.');
  });

  it('calls a machine that isolates nothing what it is', () => {
    expect(tierText('none')).toMatchObject({ level: 'absent', label: 'Not isolated' });
    expect(isolationSummary({ tier: 'none' })).toContain('Do not run code that you do not trust.');
  });

  it('does not call an unknown tier strong', () => {
    expect(tierText('new-thing').level).toBe('partial');
  });
});

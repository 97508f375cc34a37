import { describe, expect, it } from 'vitest';

import { checked } from '../src/components/responses';
import { apiUrl } from '../src/components/server';
import { isolationSummary, networkText, tierText } from '../src/lab/isolation';
import { displayName } from '../src/protocol/sandboxes';
import type { ISandbox } from '../src/protocol/sandboxes';

describe('requests to the server', () => {
  it('escapes every part of an address', () => {
    expect(apiUrl('http://h/user/a%40b/', ['sandboxes', 'a/b', 'files'], { path: '/x y&z', since: undefined })).toBe(
      'http://h/user/a%40b/sbx/api/sandboxes/a%2Fb/files?path=%2Fx+y%26z'
    );
  });

  it('throws the sentence of the server', async () => {
    const response = new Response('{"code": "not_found", "message": "No such sandbox."}', { status: 404 });
    await expect(checked(response)).rejects.toMatchObject({ code: 'not_found', message: 'No such sandbox.' });
  });

  it('says the status of an answer that is no JSON', async () => {
    const response = new Response('<html>', { status: 502, statusText: 'Bad Gateway' });
    await expect(checked(response)).rejects.toThrow('The server answered 502 Bad Gateway.');
  });
});

describe('what people read', () => {
  it('names a sandbox by its name, else by its id', () => {
    const sandbox = { sandboxID: 'i1', metadata: { name: ' mine ' } } as unknown as ISandbox;
    expect(displayName(sandbox)).toBe('mine');
    expect(displayName({ ...sandbox, metadata: {} })).toBe('i1');
  });

  it('says in the tooltip what is not held', () => {
    const text = isolationSummary({ tier: 'landlock', limits: { memory: 'rlimit', cpu: 'none' } });
    expect(text).toContain('which of your files exist');
    expect(text).toContain('CPU: not held');
    expect(text).not.toContain('Memory');
  });

  it('tells what there is of a network, and names what it does not know', () => {
    expect(networkText('none')).toContain('cannot open connections');
    expect(networkText('full')).toContain('packet filter');
    expect(networkText('carrier-pigeon')).toBe('carrier-pigeon');
    expect(networkText(undefined)).toBe('Not known.');
  });

  it('does not call an unknown tier strong', () => {
    expect(tierText('new-thing').level).toBe('partial');
  });
});

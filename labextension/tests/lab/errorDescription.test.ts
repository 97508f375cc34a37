import { describe, expect, it } from 'vitest';

import { describeError } from '../../src/lab/errorDescription';
import { SandboxError } from '../../src/protocol/errors';
import type { IServerInfo } from '../../src/protocol/sandboxes';

describe('the description of an error', () => {
  const remote = { url_kind: 'configured', host: 'api.example.com' } as unknown as IServerInfo;

  it('names the deployment and the setting when the key is refused', () => {
    const error = describeError(new SandboxError('unauthenticated', 'invalid key'), remote);
    expect(error.title).toBe('api.example.com refuses the API key');
    expect(error.advice).toContain('c.SbxExtension.api_key');
    expect(error.page).toBe('connections');
  });

  it('tells a deployment that is down from an engine that is not there', () => {
    const down = new SandboxError('unavailable', 'no answer');
    expect(describeError(down, remote).title).toBe('api.example.com cannot be reached');
    expect(describeError(down, remote).page).toBe('connections');
    expect(describeError(down, null).command).toBe('jupyter sbx doctor');
    expect(describeError(down, null).page).toBe('containers');
  });

  it('tells a Jupyter server that is away from both', () => {
    expect(describeError(new TypeError('Failed to fetch'), remote).title).toBe('The Jupyter server does not answer');
  });
});

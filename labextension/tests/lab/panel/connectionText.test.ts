import { describe, expect, it } from 'vitest';

import { choices, connectionLabel, connectionTrouble } from '../../../src/lab/panel/connectionText';
import type { IConnection } from '../../../src/protocol/connections';
import type { IServerInfo } from '../../../src/protocol/sandboxes';

const LOCAL: IConnection = {
  name: 'local',
  kind: 'local',
  host: null,
  state: 'ready',
  message: null,
  remedy: null,
  engineVersion: '1',
  missing: {}
};
const INFO: IServerInfo = {
  version: '1',
  engine: { state: 'running' },
  isolation: null,
  url_kind: 'bundled',
  host: null,
  connection: LOCAL,
  connections: [],
  ports: { mode: 'path' }
};

describe('the switch of connections', () => {
  it('is shown where there is a choice', () => {
    expect(choices(null)).toEqual([]);
    expect(choices({ ...INFO, connections: ['local'] })).toEqual([]);
    expect(choices({ ...INFO, connections: ['local', 'lab'] })).toEqual(['local', 'lab']);
  });

  it('calls the engine of the server by what it is', () => {
    expect(connectionLabel('local')).toBe('This machine');
    expect(connectionLabel('lab\u202e')).toBe('lab\ufffd');
  });

  it('says what is wrong and what helps', () => {
    expect(connectionTrouble(undefined)).toBeNull();
    expect(connectionTrouble(LOCAL)).toBeNull();
    const refused = { ...LOCAL, state: 'unauthorized', message: 'the key is refused', remedy: 'Set it.' } as const;
    expect(connectionTrouble(refused)).toEqual({
      title: '“This machine” refuses the key',
      message: 'The key is refused.',
      advice: 'Set it.'
    });
    expect(connectionTrouble({ ...refused, remedy: null })?.advice).toBeUndefined();
  });

  it('gives the command that helps, to be copied', () => {
    const other = { ...LOCAL, state: 'incompatible', message: 'the engine has version 2', remedy: 'Run `jupyter sbx stop`.' } as const;
    expect(connectionTrouble(other)).toEqual({
      title: '“This machine” has an incompatible version',
      message: 'The engine has version 2.',
      advice: 'Run jupyter sbx stop.',
      command: 'jupyter sbx stop'
    });
  });
});

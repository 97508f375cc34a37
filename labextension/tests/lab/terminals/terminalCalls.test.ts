import { describe, expect, it } from 'vitest';

import { SandboxApi } from '../../../src/components/sandboxApi';
import { endTerminal, listTerminals, nameTerminal, readTerminal } from '../../../src/lab/terminals/terminalCalls';
import { FakeServer } from '../../fakeServer';

describe('the terminals of a sandbox', () => {
  it.each([
    ['listed', (api: SandboxApi) => listTerminals(api, 'old'), 'GET sandboxes/old/terminals', undefined],
    ['read', (api: SandboxApi) => readTerminal(api, 'old', 7), 'GET sandboxes/old/terminals/7', undefined],
    ['named', (api: SandboxApi) => nameTerminal(api, 'old', 7, 'x'), 'PATCH sandboxes/old/terminals/7', '{"name":"x"}'],
    ['ended', (api: SandboxApi) => endTerminal(api, 'old', 7), 'DELETE sandboxes/old/terminals/7', undefined]
  ])('are %s by their route', async (_, call, request, body) => {
    const server = new FakeServer();
    await call(new SandboxApi(server));
    const sent = server.requests.map(made => [`${made.method} ${made.url.replace('/sbx/api/', '')}`, made.body]);
    expect(sent).toEqual([[request, body]]);
  });
});

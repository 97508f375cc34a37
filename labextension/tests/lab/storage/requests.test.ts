import { describe, expect, it } from 'vitest';

import { namesText } from '../../../src/components/names';
import { StorageRequests } from '../../../src/lab/storage/requests';
import { storeOf } from '../../../src/lab/storage/sections';
import { sectionOf } from '../../../src/lab/details/sections';
import { portUrl } from '../../../src/lab/ports';
import { FakeServer } from '../../fakeServer';

describe('what outlives sandboxes', () => {
  const begun = { templateID: 't1', buildID: 'b1', names: ['mine'] };

  it.each([
    ['listed with sizes', (made: StorageRequests) => made.volumes(), 'GET volumes?sizes=true', undefined],
    ['renamed', (made: StorageRequests) => made.renameTemplate('t/1', 'x'), 'PATCH templates/t%2F1', '{"name":"x"}'],
    ['deleted', (made: StorageRequests) => made.removeTemplate('t1', false), 'DELETE templates/t1', undefined],
    ['deleted with what was made from it', (made: StorageRequests) => made.removeTemplate('t1', true), 'DELETE templates/t1?dependants=true', undefined],
    ['built', (made: StorageRequests) => made.build('x', 'FROM base'), 'POST templates', '{"name":"x","dockerfile":"FROM base"}'],
    ['followed', (made: StorageRequests) => made.buildProgress(begun, 7, new AbortController().signal), 'GET templates/t1/builds/b1?offset=7&wait=20', undefined],
    ['cancelled', (made: StorageRequests) => made.cancelBuild(begun), 'DELETE templates/t1/builds/b1', undefined],
    ['made', (made: StorageRequests) => made.createVolume('x'), 'POST volumes', '{"name":"x"}'],
    ['given a new value', (made: StorageRequests) => made.updateSecret('KEY', 'hush'), 'POST secrets/KEY', '{"value":"hush"}'],
    ['forgotten', (made: StorageRequests) => made.removeSecret('KEY'), 'DELETE secrets/KEY', undefined]
  ])('is %s', async (_, call, request, body) => {
    const server = new FakeServer();
    await call(new StorageRequests(server));
    expect(server.requests.map(({ method, url, body: sent }) => [`${method} ${url.replace('/sbx/api/', '')}`, sent])).toEqual([[request, body]]);
  });

  it('throws what the server says', async () => {
    const server = new FakeServer();
    server.answer = Response.json({ code: 'failed_precondition', message: 'It is in use.' }, { status: 409 });
    await expect(new StorageRequests(server).removeVolume('v1')).rejects.toThrow('It is in use.');
  });

  it('is named, up to five, and counted', () => {
    expect(namesText(['a', 'b'])).toBe('a, b');
    expect(namesText(['a', 'b', 'c', 'd', 'e', 'f', 'g'])).toBe('a, b, c, d, e and 2 more');
  });
});

describe('arguments of commands', () => {
  it('name a section, else the first is shown', () => {
    expect([sectionOf('ports'), sectionOf('nonsense'), storeOf('secrets'), storeOf(undefined)]).toEqual(['ports', 'logs', 'secrets', 'snapshots']);
  });

  it('lead to a port below the base URL of the server', () => {
    expect(portUrl(new FakeServer(), 'i1', 8000)).toBe('/sbx/port/i1/8000/');
  });
});

import { describe, expect, it } from 'vitest';

import type { ServerTransport } from '../../../src/components/serverTransport';
import { isInTrash, moveToTrash, putBack, TRASH } from '../../../src/lab/files/trash';
import { FakeTransport } from '../../fakeTransport';

function setUp() {
  const transport = new FakeTransport(
    new Map<string, string | null>([
      ['/home/user', null],
      ['/home/user/a b.txt', 'one']
    ])
  );
  return { transport, server: transport as unknown as ServerTransport };
}

describe('the trash of a sandbox', () => {
  it('keeps what was deleted, with the place where it was', async () => {
    const { transport, server } = setUp();
    const trashed = await moveToTrash(server, '/home/user/a b.txt');
    expect(transport.files.get(`${TRASH}/files/a b.txt`)).toBe('one');
    expect(transport.files.has('/home/user/a b.txt')).toBe(false);
    expect(transport.files.get(trashed.info)).toMatch(/^\[Trash Info\]\nPath=\/home\/user\/a%20b\.txt\nDeletionDate=2/);
  });

  it('replaces nothing that is in the trash already', async () => {
    const { transport, server } = setUp();
    const first = await moveToTrash(server, '/home/user/a b.txt');
    transport.files.set('/home/user/a b.txt', 'two');
    const second = await moveToTrash(server, '/home/user/a b.txt');
    expect(transport.files.get(first.stored)).toBe('one');
    expect(transport.files.get(second.stored)).toBe('two');
  });

  it('puts things back, unless something new has the name', async () => {
    const { transport, server } = setUp();
    const trashed = await moveToTrash(server, '/home/user/a b.txt');
    transport.files.set('/home/user/a b.txt', 'new');
    await expect(putBack(server, trashed)).rejects.toThrow('exists again');
    transport.files.delete('/home/user/a b.txt');
    await putBack(server, trashed);
    expect(transport.files.get('/home/user/a b.txt')).toBe('one');
    expect(transport.files.has(trashed.info)).toBe(false);
  });

  it('knows what is in it', () => {
    expect([isInTrash(TRASH), isInTrash(`${TRASH}/files/a`), isInTrash('/home/user/Trash')]).toEqual([true, true, false]);
  });
});

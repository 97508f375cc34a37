// e2b for JavaScript: files.
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { after, before, test } from 'node:test';
import { FileNotFoundError, NotFoundError, Sandbox } from 'e2b';

let sandbox;
before(async () => {
  sandbox = await Sandbox.create({ timeoutMs: 120_000 });
});
after(() => sandbox.kill());

test('content comes back as written, in every format', async () => {
  const written = await sandbox.files.write('folder/näme', 'zwölf');
  assert.equal(written.path, '/home/user/folder/näme');
  assert.equal(await sandbox.files.read('folder/näme'), 'zwölf');

  const content = randomBytes(300_000);
  await sandbox.files.write('blob', new Blob([content]).stream());
  const read = await sandbox.files.read('blob', { format: 'bytes' });
  assert.ok(Buffer.from(read).equals(content));

  await sandbox.files.write('empty', '');
  assert.equal(await sandbox.files.read('empty'), '');
});

test('several files are written at once', async () => {
  const written = await sandbox.files.write([
    { path: 'many/1', data: 'one' },
    { path: '/tmp/2', data: 'two' },
    { path: 'many/back\\slash', data: 'three' },
  ]);
  const paths = ['/home/user/many/1', '/tmp/2', '/home/user/many/back\\slash'];
  assert.deepEqual(written.map((entry) => entry.path), paths);
});

test('entries are listed, described, moved and removed', async () => {
  assert.equal(await sandbox.files.makeDir('d/e'), true);
  assert.equal(await sandbox.files.makeDir('d/e'), false);
  await sandbox.files.write('d/f', 'x');
  const names = (await sandbox.files.list('d')).map((entry) => [entry.name, entry.type]);
  assert.deepEqual(names, [['e', 'dir'], ['f', 'file']]);
  const entry = await sandbox.files.getInfo('d/f');
  assert.equal(entry.owner, 'user');
  assert.equal(entry.size, 1);
  await sandbox.files.rename('d', 'moved');
  assert.equal(await sandbox.files.exists('moved/f'), true);
  await sandbox.files.remove('moved');
  assert.equal(await sandbox.files.exists('moved'), false);
});

test('what is missing is not found', async () => {
  await assert.rejects(sandbox.files.read('missing'), FileNotFoundError);
  await assert.rejects(sandbox.files.list('missing'), NotFoundError);
  await assert.rejects(sandbox.files.watchDir('missing', () => {}), NotFoundError);
});

test('a watch reports what changes', async () => {
  await sandbox.files.makeDir('watched');
  const seen = [];
  let done;
  const removed = new Promise((resolve) => (done = resolve));
  const handle = await sandbox.files.watchDir('watched', (event) => {
    seen.push([event.name, event.type]);
    if (event.type === 'remove') done();
  });
  await sandbox.files.write('watched/new', 'x');
  await sandbox.files.remove('watched/new');
  await removed;
  await handle.stop();
  assert.deepEqual(seen[0], ['new', 'create']);
});

test('a signed address opens one file', async () => {
  await sandbox.files.write('shared', 'public');
  const url = await sandbox.downloadUrl('shared', { useSignatureExpiration: 60 });
  assert.equal(await (await fetch(url)).text(), 'public');
});

// @computesdk/e2b: commands and files by its provider.
import assert from 'node:assert/strict';
import { e2b } from '@computesdk/e2b';

const sdk = e2b({ apiKey: process.env.E2B_API_KEY });
const sandbox = await sdk.sandbox.create();
try {
  const done = await sandbox.runCommand('echo $((6 * 7)); exit 3');
  assert.equal(done.exitCode, 3);
  assert.equal(done.stdout.trim(), '42');
  await sandbox.filesystem.mkdir('/home/user/made');
  await sandbox.filesystem.writeFile('/home/user/made/notes.txt', 'kept');
  assert.equal(await sandbox.filesystem.readFile('/home/user/made/notes.txt'), 'kept');
  const names = (await sandbox.filesystem.readdir('/home/user/made')).map((entry) => entry.name);
  assert.deepEqual(names, ['notes.txt']);
  assert.equal(await sandbox.filesystem.exists('/home/user/none'), false);
} finally {
  await sandbox.destroy();
}

// @computesdk/e2b: commands and files by its provider.
import assert from 'node:assert/strict';
import { appendFileSync } from 'node:fs';
import { e2b } from '@computesdk/e2b';

// As named_checks.py does for programs in Python.
async function check(name, body) {
  let failure = null;
  try {
    await body();
  } catch (error) {
    failure = `${error.name}: ${String(error.message).replace(/\s+/g, ' ').slice(0, 300)}`;
  }
  console.log(`${name}: ${failure ?? 'passed'}`);
  appendFileSync(process.env.SBX_CHECKS, JSON.stringify([name, failure]) + '\n');
}

const sdk = e2b({ apiKey: process.env.E2B_API_KEY });
const sandbox = await sdk.sandbox.create();
try {
  await check('commands', async () => {
    const done = await sandbox.runCommand('echo $((6 * 7)); exit 3');
    assert.equal(done.exitCode, 3);
    assert.equal(done.stdout.trim(), '42');
  });
  await check('write_and_read', async () => {
    await sandbox.filesystem.mkdir('/home/user/made');
    await sandbox.filesystem.writeFile('/home/user/made/notes.txt', 'kept');
    assert.equal(await sandbox.filesystem.readFile('/home/user/made/notes.txt'), 'kept');
  });
  await check('list', async () => {
    const found = await sandbox.filesystem.readdir('/home/user/made');
    const names = found.map((entry) => entry.name);
    assert.deepEqual(names, ['notes.txt']);
  });
  await check('exists', async () => {
    assert.equal(await sandbox.filesystem.exists('/home/user/made/notes.txt'), true);
    assert.equal(await sandbox.filesystem.exists('/home/user/none'), false);
  });
} finally {
  await sandbox.destroy();
}

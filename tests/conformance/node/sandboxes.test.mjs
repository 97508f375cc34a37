// e2b for JavaScript: the life of a sandbox.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { NotFoundError, Sandbox } from 'e2b';

async function withSandbox(options, act) {
  const sandbox = await Sandbox.create({ timeoutMs: 60_000, ...options });
  try {
    return await act(sandbox);
  } finally {
    await sandbox.kill();
  }
}

test('a created sandbox is listed by its metadata until it is killed', async () => {
  const metadata = { mark: `js ${Math.random()}&=` };
  await withSandbox({ metadata }, async (sandbox) => {
    const info = await sandbox.getInfo();
    assert.equal(info.sandboxId, sandbox.sandboxId);
    assert.deepEqual(info.metadata, metadata);
    assert.equal(info.state, 'running');

    const found = await Sandbox.list({ query: { metadata } }).nextItems();
    assert.deepEqual(found.map((item) => item.sandboxId), [sandbox.sandboxId]);

    assert.equal(await sandbox.kill(), true);
    assert.equal(await sandbox.kill(), false);
    assert.equal(await sandbox.isRunning(), false);
  });
});

test('connecting gives the same sandbox, and to nothing is not found', async () => {
  await withSandbox({}, async (sandbox) => {
    await sandbox.files.write('note', 'left');
    const other = await Sandbox.connect(sandbox.sandboxId);
    assert.equal(await other.files.read('note'), 'left');
  });
  await assert.rejects(Sandbox.connect('iaaaaaaaaaaaaaaaaaaaa'), NotFoundError);
});

test('a paused sandbox keeps its files and wakes by connect', async () => {
  await withSandbox({}, async (sandbox) => {
    await sandbox.files.write('kept', 'yes');
    assert.equal(await sandbox.pause(), true);
    assert.equal(await sandbox.pause(), false);
    const resumed = await Sandbox.connect(sandbox.sandboxId);
    assert.equal(await resumed.files.read('kept'), 'yes');
  });
});

test('a shortened timeout ends the sandbox', async () => {
  await withSandbox({}, async (sandbox) => {
    await sandbox.setTimeout(1000);
    await new Promise((resolve) => setTimeout(resolve, 1600));
    assert.equal(await sandbox.isRunning(), false);
  });
});

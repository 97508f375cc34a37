// e2b for JavaScript: commands and terminals.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { CommandExitError, NotFoundError, Sandbox, TimeoutError } from 'e2b';

let sandbox;
before(async () => {
  sandbox = await Sandbox.create({ timeoutMs: 120_000, envs: { COLOUR: 'teal' } });
});
after(() => sandbox.kill());

test('output, exit code, directory, user and environment', async () => {
  const result = await sandbox.commands.run('echo $COLOUR; echo err >&2');
  assert.equal(result.stdout, 'teal\n');
  assert.equal(result.stderr, 'err\n');
  assert.equal((await sandbox.commands.run('whoami; pwd', { user: 'root', cwd: '/tmp' })).stdout, 'root\n/tmp\n');
  assert.equal((await sandbox.commands.run('echo $A', { envs: { A: 'b' } })).stdout, 'b\n');
  await assert.rejects(sandbox.commands.run('exit 7'), (error) => {
    assert.ok(error instanceof CommandExitError);
    return error.exitCode === 7;
  });
});

test('a command is killed when its time is over', async () => {
  await assert.rejects(sandbox.commands.run('sleep 30', { timeoutMs: 1000 }), TimeoutError);
});

test('a background command reads what is sent, and its end', async () => {
  let heard = '';
  const handle = await sandbox.commands.run('cat; echo end', {
    background: true,
    stdin: true,
    onStdout: (text) => (heard += text),
  });
  await sandbox.commands.sendStdin(handle.pid, 'one\n');
  await sandbox.commands.closeStdin(handle.pid);
  await handle.wait();
  assert.equal(heard, 'one\nend\n');
});

test('a background command is listed, connected and killed', async () => {
  const handle = await sandbox.commands.run('sleep 1000', { background: true, timeoutMs: 0 });
  assert.ok((await sandbox.commands.list()).some((process) => process.pid === handle.pid));
  const other = await sandbox.commands.connect(handle.pid);
  assert.equal(await handle.kill(), true);
  await assert.rejects(other.wait(), CommandExitError);
  await assert.rejects(handle.wait(), CommandExitError);
  await assert.rejects(sandbox.commands.connect(999_999), NotFoundError);
});

test('three million characters arrive', async () => {
  const result = await sandbox.commands.run("head -c 3000000 /dev/zero | tr '\\0' x");
  assert.equal(result.stdout.length, 3_000_000);
});

test('a terminal is typed into, resized and killed', async () => {
  let output = '';
  let answered;
  const marked = new Promise((resolve) => (answered = resolve));
  const terminal = await sandbox.pty.create({
    cols: 77,
    rows: 11,
    onData: (chunk) => {
      output += Buffer.from(chunk).toString();
      if (output.includes('mark=42')) answered();
    },
  });
  await sandbox.pty.sendInput(terminal.pid, Buffer.from('stty size; echo mark=$((40+2))\n'));
  await marked;
  assert.match(output, /11 77/);
  await sandbox.pty.resize(terminal.pid, { cols: 100, rows: 30 });
  assert.equal(await sandbox.pty.kill(terminal.pid), true);
  await assert.rejects(terminal.wait(), CommandExitError);
});

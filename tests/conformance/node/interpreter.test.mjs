// The code interpreter for JavaScript.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { Sandbox } from '@e2b/code-interpreter';

let sandbox;
before(async () => {
  sandbox = await Sandbox.create({ timeoutMs: 120_000 });
});
after(() => sandbox.kill());

test('values, output and errors come back', async () => {
  const execution = await sandbox.runCode('print("hi")\n6 * 7');
  assert.equal(execution.text, '42');
  assert.deepEqual(execution.logs.stdout, ['hi\n']);
  const failed = await sandbox.runCode('1 / 0');
  assert.equal(failed.error.name, 'ZeroDivisionError');
});

test('output is streamed to callbacks', async () => {
  const lines = [];
  await sandbox.runCode('for i in range(3): print(i)', { onStdout: (message) => lines.push(message.line) });
  assert.equal(lines.join(''), '0\n1\n2\n');
});

test('contexts are apart from each other', async () => {
  const context = await sandbox.createCodeContext({ cwd: '/tmp' });
  await sandbox.runCode('x = 1');
  assert.equal((await sandbox.runCode('"x" in globals()', { context })).text, 'False');
  await sandbox.removeCodeContext(context);
});

test('javascript and bash run, too', async () => {
  assert.equal((await sandbox.runCode('[1, 2].map((n) => n * 2)', { language: 'js' })).text, '[ 2, 4 ]');
  assert.deepEqual((await sandbox.runCode('echo hi', { language: 'bash' })).logs.stdout, ['hi\n']);
});

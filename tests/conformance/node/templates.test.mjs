// e2b for JavaScript: templates, from their steps to the sandboxes that are made of them.
import assert from 'node:assert/strict';
import { mkdtemp, mkdir, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { BuildError, Sandbox, Template, waitForPort, waitForURL } from 'e2b';

let folder;

before(async () => {
  folder = await mkdtemp(join(tmpdir(), 'sbx-templates-js-'));
  await mkdir(join(folder, 'files/deep'), { recursive: true });
  await writeFile(join(folder, 'files/a.txt'), 'first');
  await writeFile(join(folder, 'files/deep/b.txt'), 'second');
  await symlink('a.txt', join(folder, 'files/link'));
});

after(() => rm(folder, { recursive: true }));

const builder = () => Template({ fileContextPath: folder });

async function build(template, name, options = {}) {
  const lines = [];
  const onBuildLogs = (entry) => lines.push(entry.message);
  const built = await Template.build(template, name, { ...options, onBuildLogs });
  return { built, lines };
}

async function look(template, command) {
  const sandbox = await Sandbox.create(template, { timeoutMs: 60_000 });
  try {
    return (await sandbox.commands.run(command)).stdout;
  } finally {
    await sandbox.kill();
  }
}

test('every step does what it says', async () => {
  const template = builder()
    .fromTemplate('base')
    .copy('files', '/app/files')
    .copy('files/*', 'flat', { user: 'root', mode: 0o755 })
    .copyItems([{ src: 'files/a.txt', dest: '/app/one.txt' }])
    .runCmd(['cat /app/files/a.txt', 'echo $((1 + 1)) > ~/two'])
    .setEnvs({ ONE: '1', TWO: '${ONE}-2' })
    .setWorkdir('/srv/place')
    .makeDir('made', { mode: 0o750 })
    .makeSymlink('/app/one.txt', 'pointer')
    .rename('made', 'renamed')
    .remove('/app/files/deep', { recursive: true, user: 'root' })
    .setUser('worker')
    .runCmd('id -un > /tmp/who')
    .runCmd('mkdir -p /srv/roots', { user: 'root' });
  const { built, lines } = await build(template, 'js-steps:v1', { tags: ['other'] });
  assert.deepEqual(built.tags, ['v1', 'other']);
  assert.ok(lines.some((line) => line.includes('[stdout]: first')));
  const said = await look(
    'js-steps:other',
    'id -un; pwd; echo $TWO; cat /tmp/who pointer; echo; stat -c %a renamed; ls /app/files; ' +
      "stat -c '%U %a' /home/user/flat/a.txt; cat /home/user/two",
  );
  assert.equal(
    said,
    'worker\n/srv/place\n1-2\nworker\nfirst\n750\na.txt\nlink\nroot 755\n2\n',
  );
});

test('a second build comes from the cache, unless that is skipped', async () => {
  const template = () => builder().fromTemplate('base').runCmd('date +%N').runCmd('true');
  await build(template(), 'js-cached');
  const again = await build(template(), 'js-cached');
  assert.equal(again.lines.filter((line) => line.includes('CACHED RUN')).length, 2);
  const forced = await build(template(), 'js-cached', { skipCache: true });
  assert.ok(!forced.lines.some((line) => line.includes('CACHED')));
  const half = builder().fromTemplate('base').runCmd('date +%N').skipCache().runCmd('true');
  const { lines } = await build(half, 'js-cached');
  assert.deepEqual(
    lines.filter((line) => line.includes(' RUN ')).map((line) => line.includes('CACHED')),
    [true, false],
  );
});

test('a start command runs in every sandbox before it is given out', async () => {
  for (const [name, ready] of [
    ['js-port', waitForPort(8124)],
    ['js-url', waitForURL('http://localhost:8124/')],
  ]) {
    const template = builder()
      .fromTemplate('base')
      .setWorkdir('/srv/www')
      .runCmd('echo served > page')
      .setStartCmd('sleep 0.3; exec python3 -m http.server 8124', ready);
    await build(template, name);
    assert.equal(await look(name, 'curl -s http://127.0.0.1:8124/page'), 'served\n');
  }
});

test('a build in the background is followed by its status', async () => {
  const template = builder().fromTemplate('base').runCmd('echo here');
  const built = await Template.buildInBackground(template, 'js-background');
  const seen = [];
  let status;
  do {
    status = await Template.getBuildStatus(built, { logsOffset: seen.length });
    seen.push(...status.logEntries.map((entry) => entry.message));
  } while (['waiting', 'building'].includes(status.status) || status.logEntries.length);
  assert.equal(status.status, 'ready');
  assert.ok(seen.some((line) => line.includes('[stdout]: here')));
});

test('a failed step is told with its reason', async () => {
  const template = builder().fromTemplate('base').runCmd('exit 4');
  await assert.rejects(build(template, 'js-failing'), (error) => {
    assert.ok(error instanceof BuildError);
    return error.message.includes("'exit 4': command failed: exit status 4");
  });
});

test('names and tags are known', async () => {
  await build(builder().fromTemplate('base'), 'js-tags:one');
  assert.equal(await Template.exists('js-tags'), true);
  assert.equal(await Template.exists('js-nothing'), false);
  const assigned = await Template.assignTags('js-tags:one', ['two', 'three']);
  assert.deepEqual(assigned.tags, ['two', 'three']);
  await Template.removeTags('js-tags', ['three']);
  const tags = await Template.getTags('js-tags');
  assert.deepEqual(tags.map((tag) => tag.tag).sort(), ['one', 'two']);
});

test('a Dockerfile is built', async () => {
  const text = 'FROM e2bdev/base\nENV NAME=value\nWORKDIR /opt/app\nCOPY files ./files\n' +
    'RUN echo $NAME > name && whoami >> name\n';
  await build(builder().fromDockerfile(text), 'js-dockerfile');
  assert.equal(await look('js-dockerfile', 'cat name files/a.txt'), 'value\nroot\nfirst');
});

for (const variable of ['SAVED_IMAGE', 'REGISTRY_IMAGE']) {
  const image = process.env[variable];
  test(`an image is the ground of a template: ${variable}`, { skip: !image }, async () => {
    const credentials = { username: 'me', password: 'secret' };
    const template = builder().fromImage(image, image.includes('/') ? credentials : undefined);
    const name = `js-${variable.toLowerCase()}`.replace('_', '-');
    await build(template.runCmd('cat /srv/dir/new > ~/copy'), name);
    assert.equal(await look(name, 'cat ~/copy; echo; echo $GREETING'), 'new\nhello\n');
  });
}

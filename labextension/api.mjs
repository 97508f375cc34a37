/**
 * `jlpm api` writes src/protocol/api.ts: the types of the routes of the Jupyter server, from the
 * description that the server makes of them. A test compares the digests in its first lines.
 */
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { URL } from 'node:url';

import openapiTS, { astToString } from 'openapi-typescript';

const FILE = new URL('src/protocol/api.ts', import.meta.url);
const OPTIONS = {
  immutable: true,
  // A server leaves out what has its default value.
  defaultNonNullable: false,
  rootTypes: true,
  rootTypesNoSchemaPrefix: true
};

const digest = text => createHash('sha256').update(text).digest('hex');

const described = execFileSync('python', ['-m', 'sbx_jupyter.server.description'], {
  cwd: new URL('..', import.meta.url),
  encoding: 'utf-8',
  maxBuffer: 2 ** 26
});
const types = astToString(await openapiTS(JSON.parse(described), OPTIONS));
const head = [
  '// Types of the routes below sbx/api, made by `jlpm api` from their description: change nothing here.',
  `// description ${digest(described)}`,
  `// types ${digest(types)}`,
  ''
].join('\n');
writeFileSync(FILE, `${head}\n${types}`);

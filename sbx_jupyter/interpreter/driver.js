// Reads code from one descriptor and writes outcomes to another, both ended by a NUL.
const fs = require('fs');
const moduleTools = require('module');
const repl = require('repl');
const util = require('util');
const { PassThrough } = require('stream');

const [codeDescriptor, outcomeDescriptor] = process.argv.slice(-2).map(Number);
process.argv.splice(1);

const session = repl.start({
  prompt: '',
  input: new PassThrough(),
  output: new PassThrough(),
  terminal: false,
  useGlobal: true,
  breakEvalOnSigint: true,
});
session.on('exit', () => process.exit(0));

const complain = (error) => process.stderr.write(`${describe(error).traceback}\n`);

// Sessions with a domain give it what code throws, now or later, instead of the callback.
let fail = complain;
if (session._domain) {
  session._domain.removeAllListeners('error');
  session._domain.on('error', (error) => fail(error));
}

let interrupt = () => {};
process.on('SIGINT', () => interrupt());

function describe(thrown) {
  // Code that only begins is no error for a session, but for us it is.
  const error = thrown instanceof repl.Recoverable ? thrown.err : thrown;
  if (error instanceof Error || (error && typeof error === 'object' && 'message' in error)) {
    const shown = String(error.stack || `${error.name}: ${error.message}`).split('\n');
    const traceback = shown.filter((line) => !/^ +at .*(node:|\[eval\]|<anonymous>)/.test(line));
    return {
      name: error.name || 'Error',
      value: String(error.message),
      traceback: traceback.join('\n'),
    };
  }
  return { name: 'Error', value: util.inspect(error), traceback: util.inspect(error) };
}

function bundle(value) {
  const data = { 'text/plain': util.inspect(value, { maxArrayLength: 1000 }) };
  if (typeof value === 'string') data['text/plain'] = `'${value}'`;
  return data;
}

// A session runs scripts, which have no static imports: they become awaited dynamic ones. What they
// import becomes global, so that the same import can come again.
const importStatement =
  /import\b\s*(?:([\w$\s{},*]*?[\s}])?from\s*)?(["'])((?:(?!\2)[^\\\n]|\\.)+)\2(?:\s*(?:with|assert)\s*(\{[^}]*\}))?[ \t]*;?/y;
const skipped =
  /\s+|\/\/[^\n]*|\/\*[^]*?\*\/|"(?:[^"\\\n]|\\[^])*"|'(?:[^'\\\n]|\\[^])*'|`(?:[^`\\]|\\[^])*`/y;

function bindings(clause) {
  const braces = clause.match(/\{([^}]*)\}/);
  const names = (braces ? braces[1] : '').split(',').map((name) => name.trim());
  const members = names.filter(Boolean).map((name) => {
    const [given, local = given] = name.split(/\s+as\s+/);
    return `${given}: globalThis.${local}`;
  });
  const [plain, ...others] = clause.replace(/\{[^}]*\}/, '').split(',').map((part) => part.trim());
  let space = null;
  for (const part of [plain, ...others].filter(Boolean)) {
    const star = part.match(/^\*\s*as\s+([\w$]+)$/);
    if (star) space = star[1];
    else members.push(`default: globalThis.${part}`);
  }
  return { members, space };
}

function withoutStaticImports(code) {
  let written = '';
  let depth = 0;
  let startsStatement = true;
  for (let at = 0; at < code.length; ) {
    skipped.lastIndex = importStatement.lastIndex = at;
    const blank = skipped.exec(code);
    if (blank) {
      if (blank[0].includes('\n') && /^\s/.test(blank[0])) startsStatement = true;
      else if (!/^[\s/]/.test(blank[0])) startsStatement = false;
      written += blank[0];
      at += blank[0].length;
      continue;
    }
    const found = depth === 0 && startsStatement && importStatement.exec(code);
    if (found) {
      const [text, clause, , , options] = found;
      const source = text.match(/(["'])((?:(?!\1)[^\\\n]|\\.)+)\1/)[0];
      const loaded = `await import(${source}${options ? `, { with: ${options} }` : ''})`;
      const { members, space } = bindings(clause || '');
      if (space) written += `void (globalThis.${space} = ${loaded}); `;
      if (members.length) written += `void ({ ${members.join(', ')} } = ${space || loaded});`;
      if (!space && !members.length) written += `void (${loaded});`;
      written += '\n'.repeat(text.split('\n').length - 1);
      at += text.length;
      continue;
    }
    const character = code[at];
    if ('([{'.includes(character)) depth += 1;
    if (')]}'.includes(character)) depth -= 1;
    startsStatement = ';}'.includes(character);
    written += character;
    at += 1;
    if (/[\w$]/.test(character)) {
      const word = /[\w$]*/y;
      word.lastIndex = at;
      const rest = word.exec(code)[0];
      written += rest;
      at += rest.length;
    }
  }
  return written;
}

async function run(code) {
  if (code.startsWith('\x01')) code = moduleTools.stripTypeScriptTypes(code.slice(1));
  if (/\bimport\b/.test(code)) code = withoutStaticImports(code);
  const interrupted = new Promise((_, reject) => {
    interrupt = () => reject(new Error('Interrupted'));
  });
  const evaluated = new Promise((resolve, reject) => {
    fail = reject;
    session.eval(code + '\n', session.context, 'cell', (error, value) =>
      error ? reject(error) : resolve(value),
    );
  });
  const value = await Promise.race([evaluated, interrupted]);
  return value === undefined ? {} : { result: bundle(value) };
}

function send(outcome) {
  let rest = Buffer.from(JSON.stringify(outcome) + '\0');
  while (rest.length > 0) rest = rest.subarray(fs.writeSync(outcomeDescriptor, rest));
}

process.on('uncaughtException', complain);

async function serve() {
  let pending = [];
  for await (const chunk of fs.createReadStream(null, { fd: codeDescriptor })) {
    let rest = chunk;
    for (let end = rest.indexOf(0); end >= 0; end = rest.indexOf(0)) {
      pending.push(rest.subarray(0, end));
      rest = rest.subarray(end + 1);
      const code = Buffer.concat(pending).toString();
      pending = [];
      let outcome;
      try {
        outcome = await run(code);
      } catch (error) {
        outcome = { error: describe(error) };
      }
      fail = complain;
      send(outcome);
    }
    pending.push(rest);
  }
  process.exit(0);
}
serve();

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

async function run(code) {
  if (code.startsWith('\x01')) code = moduleTools.stripTypeScriptTypes(code.slice(1));
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

/**
 * Writes the catalogue of all texts that can be translated: `jlpm catalogue`.
 *
 * Language packs of JupyterLab take it as the domain `sbx_jupyter`.
 */
import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises';
import { dirname, join, relative } from 'node:path';
import process from 'node:process';

import typescript from 'typescript';

const SOURCES = 'src';
const TARGET = 'lib/sbx_jupyter.pot';

/** The texts in one file, with their lines; fails on a call whose text is not written out. */
export function textsOf(path, source) {
  const kind = path.endsWith('x') ? typescript.ScriptKind.TSX : typescript.ScriptKind.TS;
  const file = typescript.createSourceFile(path, source, typescript.ScriptTarget.Latest, true, kind);
  const found = [];
  const visit = node => {
    if (typescript.isCallExpression(node) && node.expression.getText(file) === 'trans.__') {
      const [text] = node.arguments;
      const line = file.getLineAndCharacterOfPosition(node.getStart(file)).line + 1;
      if (text === undefined || !typescript.isStringLiteralLike(text)) {
        throw new Error(`${path}:${line}: the text of trans.__ must be written out`);
      }
      found.push({ text: text.text, place: `${path}:${line}` });
    }
    typescript.forEachChild(node, visit);
  };
  visit(file);
  return found;
}

/** The catalogue in the format of gettext. */
export function catalogue(texts) {
  const places = new Map();
  for (const { text, place } of texts) {
    places.set(text, [...(places.get(text) ?? []), place]);
  }
  const head = 'msgid ""\nmsgstr ""\n"Content-Type: text/plain; charset=UTF-8\\n"\n"Content-Transfer-Encoding: 8bit\\n"\n';
  const entries = [...places].sort(([one], [other]) => (one < other ? -1 : 1)).map(([text, at]) =>
    [...at.map(place => `#: ${place}`), `msgid ${JSON.stringify(text)}`, 'msgstr ""', ''].join('\n')
  );
  return [head, ...entries].join('\n');
}

export async function main() {
  const names = (await readdir(SOURCES, { recursive: true })).filter(name => /\.tsx?$/.test(name)).sort();
  const texts = [];
  for (const name of names) {
    const path = join(SOURCES, name);
    // The definition of the function has no text.
    if (relative(SOURCES, path) !== join('components', 'translation.ts')) {
      texts.push(...textsOf(path, await readFile(path, 'utf8')));
    }
  }
  await mkdir(dirname(TARGET), { recursive: true });
  await writeFile(TARGET, catalogue(texts));
  process.stdout.write(`${new Set(texts.map(({ text }) => text)).size} texts are in ${TARGET}.\n`);
}

if (process.argv[1]?.endsWith('catalogue.mjs')) {
  await main();
}

import { writeFile } from 'node:fs/promises';

import { build } from 'esbuild';

/** One module per widget view, with its styles inside as text: a widget carries only its own. */
await build({
  entryPoints: {
    files: 'src/widget/files.ts',
    terminal: 'src/widget/terminal.ts',
    metrics: 'src/widget/metrics.ts',
    sandbox: 'src/widget/sandbox.ts'
  },
  bundle: true,
  format: 'esm',
  target: 'es2022',
  minify: true,
  legalComments: 'inline',
  loader: { '.css': 'text' },
  outdir: '../sbx_jupyter/static',
  logLevel: 'info'
});

/** What the frames of sandboxed kernels' widgets run: one script and one style sheet, which the page inlines. */
const frame = await build({
  entryPoints: { widgetFrame: 'src/frame/main.ts' },
  bundle: true,
  format: 'iife',
  target: 'es2022',
  minify: true,
  legalComments: 'inline',
  define: { global: 'globalThis', 'process.env.NODE_ENV': '"production"' },
  loader: { '.woff2': 'dataurl', '.woff': 'empty', '.ttf': 'empty', '.eot': 'empty', '.svg': 'empty' },
  outdir: 'lib/lab/widgets',
  write: false,
  logLevel: 'info'
});
for (const { path, text } of frame.outputFiles) {
  // As text, which the bundler of the extension passes on as it is.
  await writeFile(`${path}.txt`, text);
}

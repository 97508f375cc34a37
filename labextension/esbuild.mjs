import { build } from 'esbuild';

/** One module per widget view, with its styles inside as text: a widget carries only its own. */
await build({
  entryPoints: {
    files: 'src/widget/files.ts',
    terminal: 'src/widget/terminal.ts',
    metrics: 'src/widget/metrics.ts'
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

// Bundles src/report: the page as one file that loads nothing, and the charts as one module for Node. The package has
// these two files, not the libraries that they are made of.
import { createHash } from 'node:crypto';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { rolldown } from 'rolldown';
import { root } from './stage.mjs';

const source = join(root, 'src', 'report');
const target = join(root, 'dist', 'report');

/** What the page may weigh. */
const MOST_BYTES = 900_000;

export async function bundleReport() {
  mkdirSync(target, { recursive: true });
  const [page, figures] = await Promise.all([
    bundled({ input: join(source, 'page', 'main.tsx'), platform: 'browser' }, { format: 'iife' }),
    bundled({ input: join(source, 'figures', 'echarts.ts'), platform: 'node' }, { format: 'esm' }),
  ]);
  writeFileSync(join(target, 'page.html'), pageOf(page));
  writeFileSync(join(target, 'draw-figure.js'), figures);
}

async function bundled(input, output) {
  const define = { 'process.env.NODE_ENV': '"production"' };
  const bundle = await rolldown({ ...input, tsconfig: join(source, 'page', 'tsconfig.json'), transform: { define } });
  const { output: chunks } = await bundle.generate({ ...output, codeSplitting: false, minify: true });
  await bundle.close();
  return chunks[0].code;
}

function pageOf(code) {
  const template = readFileSync(join(source, 'page', 'template.html'), 'utf8');
  const style = readFileSync(join(source, 'page', 'page.css'), 'utf8').replaceAll(/\s*\n\s*/g, '');
  // Within a script, what would end it is written otherwise; it occurs in strings only.
  const script = code.trim().replaceAll('</script', '<\\/script').replaceAll('<!--', '<\\!--');
  const hash = (text) => createHash('sha256').update(text).digest('base64');
  const html = template
    .replace('SCRIPT', () => hash(script))
    .replace('STYLE', () => hash(style))
    .replace('/*style*/', () => style)
    .replace('/*script*/', () => script);
  if (html.length > MOST_BYTES) throw new Error(`the page has ${html.length} bytes, more than ${MOST_BYTES}`);
  return html;
}

// Compiles src to dist, with what is imported or run in few files and the page of the report as one, unless dist is
// younger. npm runs this (`prepare`) after every install, before packing, and when `npx collapsar` is first used in a
// clone, which should not wait for a compiler.
import { spawnSync } from 'node:child_process';
import { chmodSync, mkdirSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { rolldown } from 'rolldown';
import { bundleReport } from './bundle-report.mjs';
import { root } from './stage.mjs';

/** What threads run, and what scripts/install.mjs asks. */
const OTHERS = ['logs/rollouts/json-lines/parse-worker.js', 'engine/prebuilt.js'];

const sources = readdirSync(join(root, 'src'), { recursive: true }).map((name) => join('src', name));
const inputs = [...sources, 'tsconfig.json', 'tsconfig.build.json', 'package.json'];
const changed = Math.max(...inputs.map((name) => statSync(join(root, name)).mtimeMs));
// The compiler writes every file every time, so that one tells for all.
const compiled = statSync(join(root, 'dist', 'index.js'), { throwIfNoEntry: false })?.mtimeMs ?? 0;
if (compiled <= changed) {
  rmSync(join(root, 'dist'), { recursive: true, force: true }); // nothing of a source that is gone may be packed
  const compiler = createRequire(import.meta.url).resolve('typescript/bin/tsc');
  const { status } = spawnSync(process.execPath, [compiler, '-p', 'tsconfig.build.json'], {
    cwd: root,
    stdio: 'inherit',
  });
  if (status !== 0) {
    rmSync(join(root, 'dist', 'index.js'), { force: true });
    process.exit(1);
  }
  await Promise.all([bundleEntries(), bundleReport()]);
  chmodSync(join(root, 'dist', 'cli', 'main.js'), 0o755); // the links that npx and npm made to it stay valid
}

/**
 * What is imported or run becomes few files that share chunks: Node takes three times as long to load the modules one by
 * one. Those of the rooms stay beside them for benches and tests, and are not packed.
 */
async function bundleEntries() {
  const dist = join(root, 'dist');
  const levels = readdirSync(join(dist, 'exports')).filter((name) => name.endsWith('.js'));
  const entries = ['cli/main.js', ...levels.map((name) => `exports/${name}`), ...OTHERS, 'index.js'];
  const input = Object.fromEntries(entries.map((name) => [name.replace(/\.js$/, ''), join(dist, name)]));
  const bundle = await rolldown({ input, platform: 'node', external: /^[^./]/, cwd: dist });
  const { output } = await bundle.generate({ entryFileNames: '[name].js', chunkFileNames: 'chunks/[name].js' });
  await bundle.close();
  rmSync(join(dist, 'cli'), { recursive: true });
  for (const folder of ['cli', 'chunks']) mkdirSync(join(dist, folder));
  for (const name of entries) rmSync(join(dist, `${name}.map`), { force: true });
  // By the entry of the package one tells that all of dist/ is there: it comes last.
  const isIndex = ({ fileName }) => fileName === 'index.js';
  rmSync(join(dist, 'index.js'));
  for (const file of [...output.filter((file) => !isIndex(file)), ...output.filter(isIndex)]) {
    writeFileSync(join(dist, file.fileName), file.type === 'chunk' ? file.code : file.source);
  }
}

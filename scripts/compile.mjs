// src -> dist, the command as one file and the page of the report as another, unless dist is younger: npm runs this (`prepare`) after every install,
// before packing, and when `npx collapsar` is first used in a clone, which should not wait for a compiler.
import { spawnSync } from 'node:child_process';
import { chmodSync, mkdirSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { rolldown } from 'rolldown';
import { bundleReport } from './bundle-report.mjs';
import { root } from './stage.mjs';

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
  await Promise.all([bundleCommand(), bundleReport()]);
  chmodSync(join(root, 'dist', 'cli', 'main.js'), 0o755); // the links that npx and npm made to it stay valid
}

/** dist/cli -> one file of our own code: some 150 modules one by one take Node twice as long to load. */
async function bundleCommand() {
  const folder = join(root, 'dist', 'cli');
  const bundle = await rolldown({ input: join(folder, 'main.js'), platform: 'node', external: /^[^./]/ });
  const { output } = await bundle.generate({ format: 'esm', codeSplitting: false });
  await bundle.close();
  rmSync(folder, { recursive: true });
  mkdirSync(folder);
  for (const { fileName, code } of output) writeFileSync(join(folder, fileName), code);
}

// binding.gyp: builds it offline in a copy under build/gyp, and compares that addon with the one of cmake-js.
import { cpSync, mkdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { unreachable } from './offline.mjs';
import { check, root, run, start } from './stage.mjs';

const copy = join(root, 'build', 'gyp');
mkdirSync(copy, { recursive: true });
for (const name of ['package.json', 'binding.gyp', 'native', 'scripts']) {
  rmSync(join(copy, name), { recursive: true, force: true });
  cpSync(join(root, name), join(copy, name), { recursive: true, preserveTimestamps: true });
}
// `node_modules` is found in the parent folders.
await run('node', ['scripts/install.mjs'], { cwd: copy, env: { ...unreachable(), COLLAPSAR_BUILD: 'gyp' } });

const addons = {
  'cmake-js': join(root, 'build', 'cmake', 'Release', 'collapsar.node'),
  'node-gyp': join(copy, 'build', 'Release', 'collapsar.node'),
};
// A comparison is worth something only if the loader takes the addon that it is told to.
const nowhere = await start('node', ['dist/cli/main.js', 'analyze', 'examples/data'], {
  quiet: true,
  env: { COLLAPSAR_ADDON: join(copy, 'nowhere.node') },
});
check(nowhere.status !== 0, 'the loader does not heed COLLAPSAR_ADDON');

// Same instruction sets (none was left out of binding.gyp), and the same bits for three whole runs.
const seen = {};
for (const [tool, addon] of Object.entries(addons)) {
  const quiet = { quiet: true, env: { COLLAPSAR_ADDON: addon } };
  const script =
    "import { openEngine } from 'collapsar'; const engine = await openEngine();" +
    'console.log(engine.info.isaAvailable.join()); await engine.dispose()';
  const isa = await run('node', ['--input-type=module', '-e', script], quiet);
  const metrics = await run('node', ['dist/cli/main.js', 'analyze', 'examples/data', '--json', '--quiet'], quiet);
  seen[tool] = { isa: isa.output.trim(), metrics: metrics.output };
  console.log(`${tool}: ${seen[tool].isa}; metrics of examples/data: ${metrics.output.length} characters`);
}
check(seen['cmake-js'].isa === seen['node-gyp'].isa, 'the two builds know different instruction sets');
check(seen['cmake-js'].metrics === seen['node-gyp'].metrics, 'the two builds give different metrics');

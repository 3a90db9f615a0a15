// All faults of faults.mjs, as often as it takes to believe it: node scripts/fault-runs.mjs [--runs N] [--seed N]
// [--main PATH] [--only NAME]. Runs what is in dist/; exit status 1 when anything came out wrong. Takes some minutes.
import { chmodSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import * as faults from './faults.mjs';
import { oneOf, readOptions, whole } from './options.mjs';
import { root } from './stage.mjs';

const scenarios = {
  killed: (folder) =>
    faults.killedRuns({
      main: values.main,
      folder,
      runs: values.runs,
      seed: values.seed,
      onRun: (run) => {
        if (process.stderr.isTTY) process.stderr.write(`\r${run + 1}/${values.runs} `);
      },
    }),
  'full disk': (folder) => faults.fullDisk({ main: values.main, folder }),
  'truncated while read': (folder) => faults.truncatedWhileRead({ main: values.main, folder }),
  'permission lost': (folder) => faults.permissionLost({ main: values.main, folder }),
  'replaced while waiting': (folder) => faults.replacedWhileWaiting({ main: values.main, folder }),
};

const values = readOptions({
  runs: { read: whole(1), default: '200' },
  seed: { read: whole(0), default: '1' },
  main: { read: String, default: join(root, 'dist', 'cli', 'main.js') },
  only: { read: oneOf(Object.keys(scenarios)) },
});

const base = mkdtempSync(join(tmpdir(), 'collapsar-faults-'));
// One of the faults needs another user.
chmodSync(base, 0o755);
try {
  for (const [name, scenario] of Object.entries(scenarios)) {
    if (values.only !== undefined && values.only !== name) continue;
    const folder = join(base, name.replaceAll(' ', '-'));
    mkdirSync(folder);
    const began = performance.now();
    try {
      const result = await scenario(folder);
      const seconds = ((performance.now() - began) / 1000).toFixed(0);
      console.log(
        `${name}: ${result.skipped === undefined ? 'passed' : 'SKIPPED'} (${seconds} s) ${JSON.stringify(result)}`,
      );
    } catch (error) {
      process.exitCode = 1;
      console.log(`${name}: FAILED: ${error.stack}`);
    }
  }
} finally {
  rmSync(base, { recursive: true, force: true });
}

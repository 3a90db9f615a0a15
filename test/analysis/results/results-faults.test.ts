// A few of the faults of scripts/faults.mjs, which `node scripts/fault-runs.mjs` does by the hundred: the command as a
// process of its own, killed, cut off from its files, and without room to write.
import { chmodSync, mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { beforeAll, expect, it } from 'vitest';
import { buildIfStale, builtCommand as main } from '../../support/built-command.js';
import { temporaryDirectory } from '../../support/temporary-directory.js';

// Plain JavaScript, without declarations; a variable keeps the compiler from looking for them.
const load = () => import(new URL('../../../scripts/faults.mjs', import.meta.url).href);

const directory = temporaryDirectory();
// One of the faults needs another user.
chmodSync(directory, 0o755);
const folderFor = (name: string) => {
  const folder = join(directory, name);
  mkdirSync(folder);
  return folder;
};

beforeAll(buildIfStale);

it('killed at random moments and run again it gives the very bytes', async () => {
  const { killedRuns } = await load();
  const { kills, resumed } = await killedRuns({ main, folder: folderFor('killed'), runs: 3, steps: 20, seed: 7 });
  expect(kills).toBeGreaterThan(0);
  expect(resumed).toBeGreaterThanOrEqual(0);
});

it.each(['permissionLost', 'truncatedWhileRead', 'replacedWhileWaiting'])('results survive %s', async (name) => {
  const result = await (await load())[name]({ main, folder: folderFor(name) });
  if (result.skipped !== undefined) console.warn(`SKIPPED ${name}: ${result.skipped}`);
});

it('with a full disk it leaves the earlier results whole, and continues when there is room', async () => {
  const { fullDisk } = await load();
  const result = await fullDisk({ main, folder: folderFor('disk'), steps: 8, sizes: [64, 160, 4096] });
  if (result.skipped !== undefined) console.warn(`SKIPPED full disk: ${result.skipped}`);
  else expect(result.full).toBeGreaterThan(0);
});

// `collapsar map` killed with SIGKILL at random moments and started again: the same bytes, nothing lost, nothing left
// behind. It runs what is in dist/. COLLAPSAR_KILLS=200 kills as often as that.
import { spawn } from 'node:child_process';
import { mkdirSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import { plan } from '../../../src/analysis/shards/plan.js';
import { packageVersion } from '../../../src/checks/package-version.js';
import { buildIfStale, builtCommand } from '../../support/built-command.js';
import { uniformNumbers } from '../../support/random-numbers.js';
import { temporaryDirectory } from '../../support/temporary-directory.js';
import { putRuns } from './shards-runs.js';

const directory = temporaryDirectory();
const KILLS = Number(process.env.COLLAPSAR_KILLS ?? 8);

beforeAll(buildIfStale);

/** @returns exit status; null where the process was killed */
function map(manifest: string, out: string, killAfter?: number): Promise<number | null> {
  return new Promise((resolve, reject) => {
    const args = [builtCommand, 'map', '--manifest', manifest, '--out', out, '--index', '0', '--quiet'];
    const child = spawn(process.execPath, args, { stdio: 'ignore' });
    const timer = killAfter === undefined ? undefined : setTimeout(() => child.kill('SIGKILL'), killAfter);
    child.on('error', reject);
    child.on('exit', (status) => {
      clearTimeout(timer);
      resolve(status);
    });
  });
}

/** Every file below, by path. */
function contents(place: string): Record<string, string> {
  const files = readdirSync(place, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile());
  return Object.fromEntries(
    files.map(({ parentPath, name }) => [
      join(parentPath, name).slice(place.length),
      readFileSync(join(parentPath, name), 'latin1'),
    ]),
  );
}

describe('map', () => {
  it(`killed ${KILLS} times at random moments`, async () => {
    const source = await putRuns(join(directory, 'runs'), [12, 10], 9);
    const manifest = join(directory, 'manifest.json');
    await plan(source, { version: packageVersion(), out: manifest, seed: 1, shards: 1 });
    const whole = join(directory, 'whole');
    const began = performance.now();
    expect(await map(manifest, whole)).toBe(0);
    const takes = performance.now() - began;
    const expected = contents(whole);
    expect(Object.keys(expected).sort()).toEqual(['/completions/00000', '/shards/00000.state']);

    const random = uniformNumbers(20_26);
    const killed = join(directory, 'killed');
    for (let kills = 0; kills < KILLS; ) {
      rmSync(killed, { recursive: true, force: true });
      mkdirSync(killed);
      // Up to three times in a row; the last time it may come to its end.
      for (let again = 0; again < 3 && kills < KILLS; again++) {
        if ((await map(manifest, killed, random() * takes * 1.1)) === null) kills++;
        const { '/shards/00000.state': state, '/completions/00000': marker } = contents(killed);
        if (marker !== undefined) expect(state).toBeDefined();
        if (state !== undefined) expect(state).toBe(expected['/shards/00000.state']);
      }
      expect(await map(manifest, killed)).toBe(0);
      expect(contents(killed)).toEqual(expected);
    }
  }, 600_000);
});

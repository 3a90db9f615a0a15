// `collapsar analyze --shard` killed with SIGKILL at random moments and started again: nothing is lost, and the results
// are the same bytes. It runs what is in dist/. COLLAPSAR_KILLS=200 kills as often as that.
import { spawn } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import { buildIfStale, builtCommand } from '../../support/built-command.js';
import { uniformNumbers } from '../../support/random-numbers.js';
import { temporaryDirectory } from '../../support/temporary-directory.js';
import { putRuns } from './shard-runs.js';

const directory = temporaryDirectory();
const KILLS = Number(process.env.COLLAPSAR_KILLS ?? 8);

beforeAll(buildIfStale);

/** @returns exit status; null where the process was killed */
function analyze(args: readonly string[], killAfter?: number): Promise<number | null> {
  return new Promise((resolve, reject) => {
    const words = [builtCommand, 'analyze', ...args, '--seed', '1', '--permutations', '99', '--quiet'];
    const child = spawn(process.execPath, words, { stdio: 'ignore' });
    const timer = killAfter === undefined ? undefined : setTimeout(() => child.kill('SIGKILL'), killAfter);
    child.on('error', reject);
    child.on('exit', (status) => {
      clearTimeout(timer);
      resolve(status);
    });
  });
}

/** Every file in a directory, by name. */
function contents(place: string): Record<string, string> {
  return Object.fromEntries(readdirSync(place).map((name) => [name, readFileSync(join(place, name), 'latin1')]));
}

describe('a shard', () => {
  it(`killed ${KILLS} times at random moments loses nothing, and the results are those of one analysis`, async () => {
    const source = await putRuns(join(directory, 'runs'), [12, 10], 9);
    const shard = (out: string) => [source, '--shard', '0/1', '--out', out];
    // Of 22 steps two fail.
    const whole = join(directory, 'whole');
    expect(await analyze([source, '--out', whole])).toBe(1);
    const { '.collapsar-journal': _, ...expected } = contents(whole);
    const began = performance.now();
    expect(await analyze(shard(join(directory, 'once')))).toBe(0);
    const takes = performance.now() - began;

    const random = uniformNumbers(20_26);
    const killed = join(directory, 'killed');
    const journals = join(killed, 'journals');
    for (let kills = 0; kills < KILLS; ) {
      rmSync(killed, { recursive: true, force: true });
      mkdirSync(killed);
      let kept = 0;
      // Up to three times in a row; the last time it may come to its end.
      for (let again = 0; again < 3 && kills < KILLS; again++) {
        if ((await analyze(shard(killed), random() * takes * 1.1)) === null) kills++;
        const [name, ...others] = existsSync(journals) ? readdirSync(journals) : [];
        expect(others).toEqual([]);
        if (name === undefined) continue;
        const lines = readFileSync(join(journals, name), 'latin1').split('\n').length;
        expect(lines).toBeGreaterThanOrEqual(kept);
        // The last line may be cut off.
        kept = lines - 1;
      }
      const finish = [source, '--journals', killed, '--out', join(directory, `results ${kills}`)];
      expect(await analyze(finish)).toBe(1);
      const { '.collapsar-journal': __, ...results } = contents(join(directory, `results ${kills}`));
      expect(results).toEqual(expected);
      expect(await analyze(shard(killed))).toBe(0);
      expect(readdirSync(journals)).toEqual(['0-of-1']);
    }
  }, 600_000);
});

// What `--out` and `--resume` do, by the names that the package exports.
import { mkdtempSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { ResultDirectory } from '../../../src/exports/logs.js';
import { type AnalyzeOptions, analyze, type FileError } from '../../../src/index.js';
import { collapsar } from '../../cli/cli-streams.js';
import { exampleRuns } from '../../support/analysis-logs.js';
import { temporaryDirectory } from '../../support/temporary-directory.js';

const directory = temporaryDirectory();
const healthy = join(exampleRuns, 'healthy');
const measuring = { permutations: 19, seed: 3 };

/** @returns how many steps were measured before, and whether all came to their end */
async function analysis(out: string, most: number, options: AnalyzeOptions = {}): Promise<number> {
  const results = await ResultDirectory.open(out);
  const failures: FileError[] = [];
  try {
    const journal = await results.journal({ measuring });
    const onFailure = (failure: FileError) => failures.push(failure);
    let steps = 0;
    for await (const report of analyze(healthy, { ...measuring, ...options, journal, onFailure })) {
      await results.add(report);
      if (++steps === most) throw new Error('enough');
    }
    await results.finish({ ...measuring }, failures);
    return journal.resumed;
  } catch (error) {
    await results.discard();
    throw error;
  }
}

describe('a directory of results, from a program', () => {
  it('is what the command writes, and continues after what was measured before', async () => {
    const out = join(mkdtempSync(join(directory, 'x')), 'results');
    await expect(analysis(out, 7)).rejects.toThrow('enough');
    expect(readdirSync(out)).toEqual(['.collapsar-journal']);
    expect(await analysis(out, Number.POSITIVE_INFINITY)).toBeGreaterThanOrEqual(7);
    const tables = ['metrics', 'prompts', 'matrices', 'texts'].map((name) => `${name}.parquet`);
    const names = ['metrics.jsonl', 'summary.json', ...tables].sort();
    expect(readdirSync(out).sort()).toEqual(names);

    const wanted = join(directory, 'wanted');
    await collapsar(['analyze', healthy, '--permutations', '19', '--seed', '3', '--out', wanted, '--quiet']);
    for (const name of names.slice(0, 4)) {
      expect(readFileSync(join(out, name)).equals(readFileSync(join(wanted, name)))).toBe(true);
    }
    const summary = (of: string) => JSON.parse(readFileSync(join(of, 'summary.json'), 'utf8'));
    expect(summary(out)).toMatchObject({ permutations: 19, seed: 3, steps: 51, runs: summary(wanted).runs });
  });

  it('refuses an analysis with other options than its journal', async () => {
    const out = join(mkdtempSync(join(directory, 'x')), 'results');
    for (const other of [{ seed: 4 }, { permutations: undefined }, { profile: 'ragen' }] as const) {
      await expect(analysis(out, 1, other as AnalyzeOptions)).rejects.toMatchObject({ argument: 'options.journal' });
    }
    expect(readdirSync(out)).toEqual([]);
  });

  it('measures anew what was measured with other options', async () => {
    const out = join(mkdtempSync(join(directory, 'x')), 'results');
    await expect(analysis(out, 3)).rejects.toThrow('enough');
    const results = await ResultDirectory.open(out);
    const journal = await results.journal({ measuring: { ...measuring, seed: 4 } });
    expect(journal).toMatchObject({ resumed: 0, startedAnew: 'it had other options: seed 3' });
    await results.discard();
  });

  it('judges a run by its own steps: one of which none can be judged has no verdict of the run before', async () => {
    const out = join(mkdtempSync(join(directory, 'x')), 'results');
    const results = await ResultDirectory.open(out);
    for await (const report of analyze(join(healthy, 'step_0000*'), measuring)) {
      await results.add(report);
    }
    for await (const { summary: _, ...report } of analyze(join(exampleRuns, 'collapse', 'step_0000*'), measuring)) {
      await results.add(report);
    }
    await results.finish({ ...measuring }, []);
    const { runs } = JSON.parse(readFileSync(join(out, 'summary.json'), 'utf8'));
    expect(runs.map(({ run, judged }: { run: string; judged?: unknown }) => [run, judged !== undefined])).toEqual([
      ['healthy', true],
      ['collapse', false],
    ]);
  });
});

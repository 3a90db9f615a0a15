// A directory a step is a run a step: the summary of very many runs is written run by run, since no string of V8 holds
// it.
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it, vi } from 'vitest';
import { RunSummaries } from '../../../src/analysis/run-summaries.js';
import { collapsar } from '../../cli/cli-streams.js';
import { putStep, smallStep } from '../../support/analysis-logs.js';
import { temporaryDirectory } from '../../support/temporary-directory.js';

const directory = temporaryDirectory();

it('writes the summary of many runs without a string that holds it', async () => {
  const runs = join(directory, 'runs');
  const RUNS = 40;
  for (let run = 0; run < RUNS; run++) {
    await putStep(join(runs, `run_${run}`, 'scores.safetensors'), smallStep(run, run / RUNS));
  }
  const out = join(directory, 'out');
  // What a killed process left goes.
  mkdirSync(out);
  writeFileSync(join(out, '.summary.json.runs.1.tmp'), '');
  const stringify = vi.spyOn(JSON, 'stringify');
  await collapsar(['analyze', runs, '--out', out, '--permutations', '0', '--quiet']);
  const longest = Math.max(...stringify.mock.results.map(({ value }) => String(value).length));
  stringify.mockRestore();
  const text = readFileSync(join(out, 'summary.json'), 'utf8');
  expect(longest).toBeLessThan(text.length / 10);
  const summary = JSON.parse(text);
  expect(summary.steps).toBe(RUNS);
  expect(summary.runs.map(({ run }: { run: string }) => run)).toEqual(
    Array.from({ length: RUNS }, (_, run) => `run_${run}`),
  );
  expect(text).toBe(`${JSON.stringify(summary, null, 2)}\n`);
  expect(readdirSync(out).sort()).toEqual([
    'matrices.parquet',
    'metrics.jsonl',
    'metrics.parquet',
    'prompts.parquet',
    'summary.json',
    'texts.parquet',
  ]);
});

it('gives the text of JSON.stringify, of no run, one and several', async () => {
  const place = join(directory, 'pieces');
  mkdirSync(place);
  const head = { seed: 0, note: 'a "quoted"\nline', statistics: { mi: { count: 1 } } };
  const added = [{ run: 'a\nb', metrics: { mi: { first: 1, last: null } } }, { run: 'ü', metrics: {} }, { run: 'c' }];
  for (const runs of [added.slice(0, 0), added.slice(0, 1), added]) {
    const summaries = new RunSummaries(place);
    for (const run of runs) await summaries.add(run);
    let text = '';
    for await (const piece of summaries.within(head)) text += piece;
    expect(text).toBe(JSON.stringify({ ...head, runs }, null, 2));
    await summaries.discard();
    expect(readdirSync(place)).toEqual([]);
  }
});

it('gives runs in the order of the calls, waited for or not, and no list that lacks one', async () => {
  const place = join(directory, 'unwaited');
  mkdirSync(place);
  const summaries = new RunSummaries(place);
  const runs = Array.from({ length: 50 }, (_, run) => ({ run: `r${run}` }));
  await Promise.all(runs.map((run) => summaries.add(run)));
  let text = '';
  for await (const piece of summaries.within({})) text += piece;
  expect(JSON.parse(text)).toEqual({ runs });
  await summaries.discard();

  const nowhere = new RunSummaries(join(directory, 'nowhere'));
  await expect(nowhere.add({ run: 'a' })).rejects.toThrow('cannot write here');
  await expect(nowhere.within({}).next()).rejects.toThrow('cannot write here');
  await nowhere.discard();
});

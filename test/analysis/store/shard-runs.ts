// Small runs, measured in shards and finished, for the tests of shards.
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { type AnalyzeOptions, analyze } from '../../../src/analysis/analyze.js';
import { measureShard, type ShardOptions } from '../../../src/analysis/store/shard.js';
import type { FileError } from '../../../src/checks/errors.js';
import type { Engine } from '../../../src/engine/engine.js';
import { elementOf, putStep, smallStep } from '../../support/analysis-logs.js';

/** What the tests measure: as little as can be. */
export const SETTINGS = { permutations: 3, seed: 5 } as const;

/** Runs `a`, `b`, … of so many steps each; every `bad`-th file holds a NaN. */
export async function putRuns(directory: string, steps: readonly number[], bad = 0): Promise<string> {
  let file = 0;
  for (const [run, count] of steps.entries()) {
    for (let step = 1; step <= count; step++) {
      const data = smallStep(step, 0.1 + ((run * 3 + step) % 7) / 5);
      if (bad > 0 && ++file % bad === 0) data.logprobs.data[elementOf(1, 2, 0)] = Number.NaN;
      await putStep(join(directory, String.fromCharCode(97 + run), `${step}.safetensors`), data);
    }
  }
  return directory;
}

/** What an analysis gives, in a form that tells any difference. */
export interface Given {
  readonly reports: readonly string[];
  readonly failures: readonly string[];
  /** Steps that came from journals. */
  readonly resumed: number;
  readonly notes: readonly string[];
}

export async function analyzed(
  engine: Engine,
  source: string | readonly string[],
  options: AnalyzeOptions = {},
): Promise<Given> {
  const reports: string[] = [];
  const failures: string[] = [];
  const notes: string[] = [];
  let resumed = 0;
  const given = analyze(source, {
    ...SETTINGS,
    engine,
    onFailure: ({ message }: FileError) => failures.push(message),
    onNote: (note) => notes.push(note),
    onProgress: (progress) => {
      resumed = progress.resumed ?? 0;
    },
    ...options,
  });
  for await (const report of given) {
    const { file, step, run, directory, bytes, record } = report;
    reports.push(JSON.stringify({ file, step, run, directory, bytes, record, summary: report.summary?.() }));
  }
  return { reports, failures, resumed, notes };
}

/** The same from journals alone. */
export const finished = (engine: Engine, source: string | readonly string[], journals: string): Promise<Given> =>
  analyzed(engine, source, { journals });

/** What is the same with and without journals. */
export const shownOf = ({ reports, failures }: Given) => ({ reports, failures });

export const measureOne = (
  engine: Engine,
  source: string | readonly string[],
  out: string,
  index: number,
  count: number,
  options: Partial<ShardOptions> = {},
) => measureShard(source, { ...SETTINGS, shard: { index, count }, out, engine, onFailure: () => {}, ...options });

/** @returns paths of the journals */
export async function measureAll(
  engine: Engine,
  source: string | readonly string[],
  out: string,
  count: number,
): Promise<string[]> {
  mkdirSync(out, { recursive: true });
  const journals: string[] = [];
  for (let index = 0; index < count; index++) {
    journals.push((await measureOne(engine, source, out, index, count)).journal);
  }
  return journals;
}

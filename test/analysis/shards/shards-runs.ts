// Small runs, planned, mapped and merged at random, for the tests of plan, map, merge and finalize.
import { createHash } from 'node:crypto';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { analyze } from '../../../src/analysis/analyze.js';
import { finalize } from '../../../src/analysis/shards/finalize.js';
import { mapShard } from '../../../src/analysis/shards/map.js';
import { mergeStates } from '../../../src/analysis/shards/merge.js';
import { type PlanOptions, plan } from '../../../src/analysis/shards/plan.js';
import type { FileError } from '../../../src/checks/errors.js';
import type { Engine } from '../../../src/engine/engine.js';
import type { StepReport } from '../../../src/step/step-report.js';
import { elementOf, putStep, smallStep } from '../../support/analysis-logs.js';

export const VERSION = '1.2.3-test';

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
}

async function collected(
  begin: (onFailure: (failure: FileError) => void) => AsyncIterable<StepReport>,
): Promise<Given> {
  const reports: string[] = [];
  const failures: string[] = [];
  for await (const report of begin((failure) => failures.push(failure.message))) {
    const { file, step, run, directory, bytes, record } = report;
    reports.push(JSON.stringify({ file, step, run, directory, bytes, record, summary: report.summary?.() }));
  }
  return { reports, failures };
}

export const analyzed = (engine: Engine, source: string | readonly string[]): Promise<Given> =>
  collected((onFailure) => analyze(source, { ...SETTINGS, engine, onFailure }));

export const finalized = (manifest: string, state: string, version = VERSION): Promise<Given> =>
  collected((onFailure) => finalize({ manifest, state, version, onFailure }));

export interface PlannedRuns {
  readonly manifest: string;
  /** Directory of states. */
  readonly states: string;
  readonly shards: number;
}

export async function planRuns(
  source: string | readonly string[],
  place: string,
  options: Partial<PlanOptions> = {},
): Promise<PlannedRuns> {
  const manifest = join(place, 'manifest.json');
  const planned = await plan(source, { ...SETTINGS, version: VERSION, onFailure: () => {}, ...options, out: manifest });
  return { manifest, states: join(place, 'states'), shards: planned?.shards.length ?? 0 };
}

export const mapOne = ({ manifest, states }: PlannedRuns, engine: Engine, index: number, options: object = {}) =>
  mapShard({ manifest, index, out: states, version: VERSION, engine, ...options });

/** @returns paths of the states */
export async function mapAll(runs: PlannedRuns, engine: Engine): Promise<string[]> {
  const paths: string[] = [];
  for (let index = 0; index < runs.shards; index++) paths.push((await mapOne(runs, engine, index)).state);
  return paths;
}

/** Merges a few at a time, chosen by `random` (in [0, 1)), until one is left. */
export async function mergeAtRandom(paths: readonly string[], place: string, random: () => number): Promise<string> {
  mkdirSync(place, { recursive: true });
  const below = (count: number): number => Math.floor(random() * count);
  let left = [...paths];
  // A single state is merged too: nothing changes.
  for (let round = 0; round === 0 || left.length > 1; round++) {
    const chosen: string[] = [];
    for (let count = 2 + below(6); count > 0 && left.length > 0; count--) {
      chosen.push(...left.splice(below(left.length), 1));
    }
    const out = join(place, `${round}.state`);
    await mergeStates(chosen, { out, fanIn: 2 + below(4) });
    left = [...left, out];
  }
  return left[0] as string;
}

/** Writes `to` with `change` done to the text, and a checksum that is right: what damage alone cannot do. */
export function forge(from: string, to: string, change: (text: string) => string): void {
  const text = change(readFileSync(from, 'utf8').replace(/"sha256":"[0-9a-f]{64}"\}\n$/, ''));
  writeFileSync(to, `${text}"sha256":"${createHash('sha256').update(text).digest('hex')}"}\n`);
}

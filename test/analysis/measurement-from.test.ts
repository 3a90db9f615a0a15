// What a state or a journal says of a step, with any part of it forged: refused by a StateError that names the part, or
// of use.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { measurementFrom } from '../../src/analysis/measuring/measurement-from.js';
import { parseLossless } from '../../src/analysis/results/lossless-json.js';
import { StateError } from '../../src/checks/errors.js';
import type { Engine } from '../../src/engine/engine.js';
import { openEngine } from '../../src/engine/open-engine.js';
import { Run, startRun } from '../../src/step/run.js';
import type { StepMeasurement } from '../../src/step/step-measurement.js';
import { resolveEarlyStop } from '../../src/verdicts/early-stop/early-stops.js';
import type { StepReading } from '../../src/verdicts/index.js';
import { putStep, smallStep } from '../support/analysis-logs.js';
import { temporaryDirectory } from '../support/temporary-directory.js';
import { mapAll, planRuns } from './shards/shards-runs.js';

const STEPS = 7;
const PROMPTS = 4;
const ROWS = 12;
const TOKENS = 3;

let engine: Engine;
let measurements: StepMeasurement[];

beforeAll(async () => {
  engine = await openEngine({ threads: 1 });
  const directory = temporaryDirectory();
  for (let step = 1; step <= STEPS; step++) {
    await putStep(join(directory, 'run', `${step}.safetensors`), {
      ...smallStep(step, 1),
      rewards: Float32Array.from({ length: ROWS }, (_, row) => ((row * 7 + step) % 5) / 4),
      correct: Uint8Array.from({ length: ROWS }, (_, row) => ((row * 7 + step) % 5 > 2 ? 1 : 0)),
      actions: Int32Array.from({ length: ROWS }, (_, row) => (row * 5 + step) % 3),
      episode: Int32Array.from({ length: ROWS }, (_, row) => row % PROMPTS),
      turn: Int32Array.from({ length: ROWS }, (_, row) => Math.floor(row / PROMPTS)),
      ablatedLogprobs: {
        data: Float32Array.from({ length: ROWS * TOKENS }, (_, at) => -2 - (at % 7) / 8),
        dtype: 'float32',
        shape: [ROWS, TOKENS],
      },
      actionLogprobs: {
        data: Float32Array.from({ length: ROWS * ROWS }, (_, at) => -1 - (at % 11) / 8),
        dtype: 'float32',
        shape: [ROWS, ROWS],
      },
    });
  }
  const runs = await planRuns(join(directory, 'run'), directory, { shards: 1, turnRewards: 'last' });
  const [state] = await mapAll(runs, engine);
  const lines = readFileSync(state as string, 'utf8').split('\n');
  // Episodes of three turns are too short for it.
  const oscillation = { episodes: 4, periodicShare: 1, pValue: 0.01, windowedEntropy: 0.6, repetition: 0.5 };
  measurements = lines.slice(1, 1 + STEPS).map((line) => {
    const { measurement } = parseLossless(line) as { measurement: StepMeasurement };
    return { ...measurement, reading: { ...(measurement.reading as StepReading), oscillation } };
  });
});
afterAll(() => engine.dispose());

type Path = readonly (string | number)[];

function* paths(value: unknown, path: Path = []): Generator<Path> {
  yield path;
  if (typeof value !== 'object' || value === null) return;
  for (const key of Object.keys(value)) yield* paths((value as Record<string, unknown>)[key], [...path, key]);
}

function replaced(value: unknown, [key, ...rest]: Path, by: unknown): unknown {
  if (key === undefined) return by;
  const copy = (Array.isArray(value) ? [...value] : { ...(value as object) }) as Record<string | number, unknown>;
  copy[key] = replaced(copy[key], rest, by);
  return copy;
}

/** What finalize does with the measurements of a run. */
function replay(last: StepMeasurement): void {
  const run = new Run('r', 'd', startRun({ seed: 5 }, resolveEarlyStop(false)));
  for (const [at, measurement] of [...measurements.slice(0, -1), last].entries()) {
    JSON.stringify(run.take({ step: at + 1, file: 'f', bytes: 0 }, measurement).record);
  }
  JSON.stringify(run.summary?.());
}

describe('a measurement read back', () => {
  it('has everything that a step can have', () => {
    const { reading, filter } = measurements.at(-1) as StepMeasurement;
    expect(filter).toBeDefined();
    expect(Object.entries(reading ?? {}).filter(([, part]) => part === null)).toEqual([['figures', null]]);
    for (const [at, measurement] of measurements.entries()) {
      expect(measurementFrom(measurement, at + 1)).toBe(measurement);
    }
    replay(measurements.at(-1) as StepMeasurement);
  });

  it.each<[string, unknown]>([
    ['nothing', undefined],
    ['null', null],
    ['a text', 'x'],
    ['a bigint', 5n],
    ['a negative number', -1],
    ['infinity', Number.POSITIVE_INFINITY],
    ['an empty list', []],
    ['an empty object', {}],
    ['true', true],
    ['a list of bigints', [5n]],
  ])('with %s in any place is refused, or of use', (_, value) => {
    const last = measurements.at(-1) as StepMeasurement;
    for (const path of paths(last)) {
      const forged = replaced(last, path, value) as StepMeasurement;
      let known: StepMeasurement;
      try {
        known = measurementFrom(forged, STEPS);
      } catch (error) {
        expect(error, path.join('.')).toBeInstanceOf(StateError);
        continue;
      }
      expect(() => replay(known), path.join('.')).not.toThrow();
    }
  });

  it('of another step is refused', () => {
    expect(() => measurementFrom(measurements[0], 2)).toThrow(/reading\.step is 1, expected 2/);
  });
});

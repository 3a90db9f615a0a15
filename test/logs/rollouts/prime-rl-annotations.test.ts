// prime-rl's annotations, folded onto the stream: a run made at random, its first chunks sealed as prime-rl seals them,
// and what prime-rl's own fold_trace_updates (799bb508) makes of it.
import { cpSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { describe, expect, it } from 'vitest';
import { packageRoot } from '../../../src/checks/package-root.js';
import { temporaryDirectory } from '../../support/temporary-directory.js';
import { readAll } from './rollout-logs.js';

interface Expected {
  readonly sample: string;
  readonly step: number;
  readonly kind: string;
  readonly tokens: number[];
  readonly logprobs: number[];
  readonly trainer_logprobs: (number | null)[] | null;
  readonly entropy: number | null;
  readonly masked: number | null;
  readonly advantage: number | null;
}

const FIXTURE = join(packageRoot, 'test/data/prime-rl-stream');
const expected = JSON.parse(
  readFileSync(join(packageRoot, 'test/golden/prime-rl-stream.json'), 'utf8'),
) as readonly Expected[];
const root = temporaryDirectory();

function copy(name: string): string {
  const path = join(root, name);
  cpSync(join(FIXTURE, 'run'), join(path, 'run'), { recursive: true });
  return path;
}

async function rowsOf(path: string): Promise<Expected[]> {
  const { steps, errors } = await readAll(path);
  expect(errors).toEqual([]);
  const found: Expected[] = [];
  const known = (value: number | undefined): number | null =>
    value === undefined || Number.isNaN(value) ? null : value;
  for (const step of steps) {
    for (let row = 0; row < step.rows; row++) {
      const trainer = step.trainerLogprobs?.[row];
      found.push({
        sample: step.sample?.[row] as string,
        step: step.step,
        kind: step.run === 'run' ? 'train' : step.run.replace('run/', ''),
        tokens: [...(step.tokens?.[row] ?? [])],
        logprobs: [...(step.logprobs?.[row] ?? [])],
        trainer_logprobs: trainer === undefined ? null : Array.from(trainer, known),
        entropy: known(step.entropy?.[row]),
        masked: known(step.masked?.[row]),
        advantage: known(step.advantage?.[row]),
      });
    }
  }
  return found.sort((a, b) => (a.sample < b.sample ? -1 : 1));
}

const rounded = (rows: readonly Expected[]) =>
  JSON.parse(
    JSON.stringify(rows, (_, value) => (typeof value === 'number' ? Number(value.toPrecision(12)) : value)),
  ) as Expected[];

describe("prime-rl's annotations", () => {
  it('are folded onto the rows as prime-rl folds them', async () => {
    const wanted = [...expected].sort((a, b) => (a.sample < b.sample ? -1 : 1));
    expect(wanted.filter(({ trainer_logprobs }) => trainer_logprobs?.includes(null)).length).toBeGreaterThan(0);
    expect(rounded(await rowsOf(join(FIXTURE, 'run')))).toEqual(rounded(wanted));
  });

  it('are the same once other chunks are compressed, and where a chunk lies there twice', async () => {
    const path = copy('sealed');
    const traces = join(path, 'run/monitors/file/traces');
    for (const chunk of [
      'stream/00001.jsonl',
      'annotations/orchestrator/00000.jsonl',
      'annotations/trainer/00001.jsonl',
    ]) {
      writeFileSync(join(traces, `${chunk}.gz`), gzipSync(readFileSync(join(traces, chunk))));
      if (chunk !== 'annotations/trainer/00001.jsonl') rmSync(join(traces, chunk));
    }
    expect(rounded(await rowsOf(path))).toEqual(rounded(await rowsOf(join(FIXTURE, 'run'))));
  });

  it('that are damaged or being written say nothing, and the others are read', async () => {
    const path = copy('damaged');
    const file = join(path, 'run/monitors/file/traces/annotations/trainer/00001.jsonl');
    const text = readFileSync(file, 'utf8');
    writeFileSync(
      file,
      `no json\n{"trace_id": 5, "branches": 3}\n{"trace_id": "t0-0", "branches": [{"index": "x"}]}\n${text}{"tra`,
    );
    expect(rounded(await rowsOf(path))).toEqual(rounded(await rowsOf(join(FIXTURE, 'run'))));
  });

  it('may be missing', async () => {
    const path = copy('bare');
    rmSync(join(path, 'run/monitors/file/traces/annotations'), { recursive: true });
    const rows = await rowsOf(path);
    expect(rows.length).toBe(expected.length);
    expect(rows.every(({ trainer_logprobs, advantage }) => trainer_logprobs === null && advantage === null)).toBe(true);
  });
});

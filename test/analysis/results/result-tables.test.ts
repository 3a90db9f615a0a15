// prompts.parquet, matrices.parquet and texts.parquet: read back by another library they hold what the reports hold, and neither
// threads, nor shards, nor a kill can be seen in them.
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import { asyncBufferFromFile, parquetReadObjects } from 'hyparquet';
import { describe, expect, it } from 'vitest';
import { analyze } from '../../../src/analysis/analyze.js';
import { keptSteps } from '../../../src/analysis/results/kept-steps.js';
import { ResultDirectory } from '../../../src/analysis/results/result-directory.js';
import { ResultTables } from '../../../src/analysis/results/result-tables.js';
import { PromptMatrix } from '../../../src/step/prompts/prompt-findings.js';
import type { StepReport } from '../../../src/step/step-report.js';
import { collapsar } from '../../cli/cli-streams.js';
import { exampleRollouts, exampleRuns, putStep, smallStep } from '../../support/analysis-logs.js';
import { temporaryDirectory } from '../../support/temporary-directory.js';

const directory = temporaryDirectory();
const TABLES = ['prompts.parquet', 'matrices.parquet', 'texts.parquet'] as const;

async function rowsIn(path: string): Promise<Record<string, unknown>[]> {
  return parquetReadObjects({ file: await asyncBufferFromFile(path), utf8: false });
}

/** With figures of which some have no value: single rows, no reasoning, rewards that are alike. */
function judged(step: number) {
  const data = smallStep(step, 0.2 + (step % 5) / 4);
  const group = Int32Array.from([3, -7, 3, 20, 3, -7, 3, 20, 5, 20, -7, 20]);
  const lengths = Int32Array.from([3, 2, 3, 1, 3, 0, 3, 3, 2, 3, 3, 3]);
  const rewards = Float32Array.from(group, (id, row) => (id === 3 ? 1 : (row * step) % 3));
  return { ...data, group, lengths, rewards, columnGroup: Int32Array.from([20, 3, -7, 5]) };
}

describe('which steps keep their matrix and their texts', () => {
  const stepsArbitrary = fc.uniqueArray(fc.nat(3000), { maxLength: 900 }).map((steps) => steps.sort((a, b) => a - b));

  it('has the first five, the last, those about verdicts, and at most 200 others evenly', () => {
    fc.assert(
      fc.property(
        stepsArbitrary,
        fc.array(fc.record({ since: fc.nat(3000), raised: fc.nat(3000) })),
        (steps, verdicts) => {
          const kept = keptSteps(steps, verdicts);
          const wanted = new Set<number>();
          for (let at = 0; at < Math.min(5, steps.length); at++) wanted.add(at);
          if (steps.length > 0) wanted.add(steps.length - 1);
          for (const step of verdicts.flatMap(({ since, raised }) => [since, raised])) {
            const before = steps.flatMap((one, at) => (one < step ? [at] : [])).slice(-2);
            const after = steps.flatMap((one, at) => (one > step ? [at] : [])).slice(0, 2);
            for (const at of [...before, ...after]) wanted.add(at);
            if (steps.includes(step)) wanted.add(steps.indexOf(step));
          }
          for (const at of wanted) expect(kept).toContain(at);
          const others = [...kept].filter((at) => !wanted.has(at)).sort((a, b) => a - b);
          expect(others.length).toBeLessThanOrEqual(200);
          if (steps.length <= 200) expect(kept.size).toBe(steps.length);
          const k = Math.ceil(steps.length / 200);
          expect(others.every((at) => at % k === 0)).toBe(true);
          for (let at = 0; at < steps.length; at += k) expect(kept).toContain(at);
        },
      ),
    );
  });
});

describe('analyze --out', () => {
  it('writes what the reports have of each prompt, and their matrices', async () => {
    const run = join(directory, 'judged');
    for (let step = 1; step <= 4; step++) await putStep(join(run, `${step}.safetensors`), judged(step));
    const reports: StepReport[] = [];
    for await (const report of analyze(run, { permutations: 19 })) reports.push(report);
    const out = join(directory, 'judged-out');
    expect((await collapsar(['analyze', run, '--out', out, '--permutations', '19', '--quiet'])).status).toBe(0);

    expect(await rowsIn(join(out, 'prompts.parquet'))).toEqual(
      reports.flatMap(({ run: name, step, prompts = [] }) =>
        prompts.map((of) => ({
          run: name,
          step: BigInt(step),
          prompt: of.prompt,
          rows: of.rows,
          mi: of.mi,
          mi_low: of.miLow,
          mi_high: of.miHigh,
          reward_mean: of.rewardMean,
          reward_std: of.rewardStd,
          kept: of.kept,
          drop_reason: of.dropReason,
          cause: of.cause,
          retrieval: of.retrieval,
        })),
      ),
    );
    const [first] = reports as [StepReport];
    expect(first.prompts?.map(({ prompt }) => prompt)).toEqual(['-7', '3', '5', '20']);
    // One of the rows of −7 has no reasoning; 5 has a single row.
    expect(first.prompts?.map(({ rows }) => rows)).toEqual([2, 4, 1, 4]);
    expect(first.prompts?.[2]).toMatchObject({ miLow: null, miHigh: null, rewardStd: null, cause: null });
    expect(first.prompts?.[1]).toMatchObject({ rewardMean: 1, rewardStd: 0, kept: false });
    const [{ values } = { values: {} as Record<string, number> }] = first.samples;
    const total = first.prompts?.reduce((sum, { mi, rows }) => sum + (mi as number) * rows, 0) as number;
    expect(total / 11).toBeCloseTo(values.mi_seq_estimate as number, 12);

    const matrices = await rowsIn(join(out, 'matrices.parquet'));
    expect(matrices.map(({ step }) => step)).toEqual([1n, 2n, 3n, 4n]);
    for (const [at, row] of matrices.entries()) {
      const matrix = (reports[at] as StepReport).matrix as PromptMatrix;
      expect([row.prompts, row.source, JSON.parse(row.ids as string)]).toEqual([4, 'scores', matrix.ids]);
      expect(row.posterior).toEqual(Uint8Array.from(matrix.posterior));
      const nats = Buffer.from(row.nats as Uint8Array);
      expect([...Array(16).keys()].map((cell) => nats.readUInt16LE(2 * cell))).toEqual([...matrix.nats]);
    }
  });

  it('writes the same bytes with other threads, after an abort, and from shards', async () => {
    const wanted = join(directory, 'wanted');
    const options = ['--permutations', '19', '--quiet'];
    const run = join(exampleRuns, 'collapse');
    await collapsar(['analyze', run, '--out', wanted, ...options]);
    const place = join(directory, 'sharded');
    for (const index of [2, 0, 1]) {
      await collapsar(['analyze', run, '--shard', `${index}/3`, '--out', place, ...options]);
    }
    await collapsar(['analyze', run, '--journals', place, '--out', join(place, 'out'), ...options]);
    const threads = join(directory, 'threads');
    await collapsar(['analyze', run, '--out', threads, '--threads', '1', '--keep-journal', ...options]);
    // What a journal has is not measured again.
    const again = await collapsar(['analyze', run, '--out', threads, '--permutations', '19']);
    expect(again.err).toContain('need not be read again');
    for (const name of TABLES) {
      for (const other of [join(place, 'out'), threads]) {
        expect(readFileSync(join(other, name)).equals(readFileSync(join(wanted, name)))).toBe(true);
      }
    }
  });

  it('writes of rollout logs what their texts say, under the names that the log has', async () => {
    const out = join(directory, 'rollouts');
    await collapsar(['analyze', exampleRollouts, '--out', out, '--permutations', '19', '--quiet']);
    const reports: StepReport[] = [];
    for await (const report of analyze(exampleRollouts, { permutations: 19 })) reports.push(report);
    for (const { prompts = [], matrix, texts } of reports) {
      expect(matrix?.source).toBe('texts');
      // This log tells its groups by their prompts, which no number stands for.
      expect(prompts.every(({ prompt }) => /[a-z]/i.test(prompt))).toBe(true);
      expect(prompts.map(({ prompt }) => prompt)).toEqual(matrix?.ids);
      const bound = prompts.reduce((sum, { mi }) => sum + (mi as number), 0) / prompts.length;
      expect(bound).toBeCloseTo(texts?.values.mi_bound as number, 12);
      for (const { kept, cause, rewardMean, rows } of prompts) {
        expect([typeof kept, typeof cause, typeof rewardMean]).toEqual(['boolean', 'string', 'number']);
        expect(rows).toBeGreaterThan(0);
      }
    }
    const rows = await rowsIn(join(out, 'prompts.parquet'));
    expect(rows.map(({ step, prompt, mi }) => [Number(step), prompt, mi])).toEqual(
      reports.flatMap(({ step, prompts = [] }) => prompts.map(({ prompt, mi }) => [step, prompt, mi])),
    );
    expect(await rowsIn(join(out, 'matrices.parquet'))).toHaveLength(reports.length);
    const bytes = (base64: string) => Uint8Array.from(Buffer.from(base64, 'base64'));
    const wanted = reports.flatMap(({ run, step, excerpts }) =>
      (excerpts?.rollouts ?? []).map((of) => ({
        ...{ run, step: BigInt(step), row: BigInt(of.row), group: of.group, prompt: of.prompt },
        ...{ reasoning: of.reasoning, reward: of.reward, specificity: of.specificity, rows: excerpts?.rows },
        ...{ tokens: of.tokens, prompt_length: of.promptLength, reasoning_length: of.length },
        ...{ token_places: bytes(of.places), token_nats: bytes(of.nats) },
      })),
    );
    expect(wanted).toHaveLength(16 * reports.length);
    expect(await rowsIn(join(out, 'texts.parquet'))).toEqual(wanted);
  });

  it('writes tables without rows under ragen', async () => {
    const out = join(directory, 'ragen');
    await collapsar(['analyze', join(exampleRuns, 'healthy'), '--profile', 'ragen', '--out', out, '--quiet']);
    for (const name of TABLES) expect(await rowsIn(join(out, name))).toEqual([]);
  });
});

describe('figures of prompts', () => {
  it('are not made where nobody reads them, and nothing else changes by a bit', async () => {
    for (const source of [join(exampleRuns, 'healthy'), exampleRollouts]) {
      const bare = analyze(source, { permutations: 19, perPrompt: false });
      for await (const { prompts, matrix, excerpts, summary, ...rest } of analyze(source, { permutations: 19 })) {
        expect(prompts?.length).toBeGreaterThan(1);
        expect(matrix).toBeDefined();
        expect(excerpts === undefined).toBe(source !== exampleRollouts);
        const { summary: ofBare, ...report } = (await bare.next()).value as StepReport;
        expect(report).toStrictEqual(rest);
        expect(ofBare?.()).toStrictEqual(summary?.());
      }
      expect((await bare.next()).done).toBe(true);
    }
  });

  it('are made for a journal whatever is said, which keeps them for a result directory', async () => {
    const results = await ResultDirectory.open(join(directory, 'kept'));
    const journal = await results.journal({ measuring: { permutations: 0 } });
    const source = join(exampleRuns, 'healthy', 'step_0000*');
    for await (const report of analyze(source, { permutations: 0, perPrompt: false, journal })) {
      expect(report.matrix).toBeDefined();
      await results.add(report);
    }
    await results.finish({}, []);
    expect((await rowsIn(join(directory, 'kept', 'prompts.parquet'))).length).toBeGreaterThan(0);
  });
});

describe('tables of prompts', () => {
  it('have rows in the order of the calls, whether or not these are waited for, and of each run what is kept', async () => {
    const place = temporaryDirectory();
    const tables = new ResultTables(place);
    const zeros = (bytes: number) => Buffer.alloc(bytes).toString('base64');
    const matrix = new PromptMatrix({ source: 'scores', ids: ['é', '"'], posterior: zeros(4), nats: zeros(8) });
    const rollout = {
      ...{ row: 2 ** 40, group: 'g', prompt: null, promptLength: 0, reasoning: 'é\u0000\n', length: 3, reward: null },
      ...{ specificity: null, tokens: 0, places: '', nats: '' },
    };
    const excerpts = { rows: 9, rollouts: [rollout, { ...rollout, prompt: '' }] };
    const waiting = [];
    for (const run of ['a', 'b']) {
      for (let step = 0; step < 450; step++) waiting.push(tables.add({ run, step, prompts: [], matrix, excerpts }));
      waiting.push(tables.endRun([]));
    }
    await Promise.all(waiting);
    for (const file of await tables.prepare()) await file.place();
    await tables.discard();
    expect(readdirSync(place).sort()).toEqual([...TABLES].sort());
    expect(await rowsIn(join(place, 'prompts.parquet'))).toEqual([]);
    const kept = [...keptSteps([...Array(450).keys()], [])].sort((a, b) => a - b);
    const found = await rowsIn(join(place, 'matrices.parquet'));
    expect(found.map(({ run, step }) => [run, step])).toEqual(
      ['a', 'b'].flatMap((run) => kept.map((step) => [run, BigInt(step)])),
    );
    expect(found.every(({ ids }) => ids === JSON.stringify(matrix.ids))).toBe(true);
    const texts = await rowsIn(join(place, 'texts.parquet'));
    expect(texts.map(({ run, step, row, prompt, reasoning }) => [run, step, row, prompt, reasoning])).toEqual(
      ['a', 'b'].flatMap((run) =>
        kept.flatMap((step) => [null, ''].map((prompt) => [run, BigInt(step), 2n ** 40n, prompt, 'é\u0000\n'])),
      ),
    );
  });
});

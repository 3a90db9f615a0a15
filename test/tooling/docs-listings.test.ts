// The TypeScript of the pages runs as it stands there, with what a reader is told to have. Those of
// docs/guide/monitor.md's streams, docs/reference/step-file.md's Python and docs/guide/gpu.md have tests of their own.
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import * as files from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import ts from 'typescript';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { LogitStats } from '../../src/exports/engine.js';
import { listSteps } from '../../src/exports/logs.js';
import type { PairEstimates } from '../../src/exports/sampling.js';
import * as collapsar from '../../src/index.js';
import { putStep, smallStep } from '../support/analysis-logs.js';
import { levels } from '../support/package-levels.js';
import { temporaryDirectory } from '../support/temporary-directory.js';

const root = fileURLToPath(new URL('../..', import.meta.url));
const options = { target: ts.ScriptTarget.ES2022, module: ts.ModuleKind.ESNext };

/**
 * Runs listing `index` of a page.
 * @param given what the listing's reader has
 * @param after code that looks at what the listing made
 */
async function run(page: string, index: number, given: Record<string, unknown>, after = ''): Promise<unknown> {
  const text = readFileSync(join(root, page), 'utf8');
  const listing = [...text.matchAll(/```ts\n([\s\S]*?)```/g)][index]?.[1];
  if (listing === undefined) throw new Error(`${page} has no listing ${index}`);
  const imports: Record<string, unknown> = {};
  const modules = { collapsar, ...levels, 'node:fs/promises': files } as Record<string, Record<string, unknown>>;
  const body = listing.replace(/^import \{([^}]*)\} from '([^']*)';$/gm, (_, names: string, from: string) => {
    const module = modules[from] ?? {};
    for (const name of names.split(',').map((one) => one.trim())) {
      if (name.startsWith('type ')) continue;
      if (!(name in module)) throw new Error(`${page}: ${from} has no ${name}`);
      imports[name] = module[name];
    }
    return '';
  });
  const code = ts.transpileModule(`async function run() {${body}${after}}`, { compilerOptions: options }).outputText;
  const names = { ...imports, ...given };
  return new Function(...Object.keys(names), `${code}; return run();`)(...Object.values(names));
}

const directory = temporaryDirectory();
const before = process.cwd();
beforeAll(() => process.chdir(directory));
afterAll(() => process.chdir(before));

// A step of 4 prompts × 3 responses of 3 tokens; rows are those of prompts 0, 1, 2, 3, 0, 1, …
const { logprobs, lengths, group: groups } = smallStep(1);
const [P, R, T] = logprobs.shape as [number, number, number];
const promptTokens = Array.from({ length: P }, (_, prompt) => [prompt]);
const rewards = Float64Array.from({ length: R }, (_, row) => Number(row < P + 2));
const tensorOf = (prompt: number) => ({
  data: logprobs.data.subarray(prompt * R * T, (prompt + 1) * R * T),
  dtype: 'float32',
  shape: [R, T],
});
const sumOf = (prompt: number, row: number): number =>
  tensorOf(prompt)
    .data.subarray(row * T, (row + 1) * T)
    .reduce((sum, value) => sum + value, 0);

describe('README.md', () => {
  it('embeds a monitor', async () => {
    const logged: unknown[] = [];
    const batch = { promptOfRow: groups, reasoningLengths: lengths, rewards };
    const given = {
      policy: { logprobs: (prompt: number) => tensorOf(prompt) },
      logger: { log: (metrics: object, n: number) => logged.push([n, 'rollout/filter_kept_count' in metrics]) },
      batch,
    };
    expect(await run('README.md', 0, given, 'await onStep(1, batch); return await onStep(2, batch);')).toEqual([
      0, 1, 2, 3,
    ]);
    expect(logged).toEqual([
      [1, true],
      [2, true],
    ]);
  });
});

describe('docs/reference/api.md', () => {
  it('gives a step’s metrics', async () => {
    const logged: Record<string, number>[] = [];
    const logger = { log: (metrics: Record<string, number>) => logged.push(metrics) };
    await run('docs/reference/api.md', 0, {
      P,
      R,
      T,
      data: logprobs.data,
      lengths,
      groups,
      logger,
      console: { log() {} },
    });
    expect(logged[0]?.['collapse_first_turn_sample/mi_seq_estimate']).toBeGreaterThan(0);
  });
});

describe('docs/reference/api.md, the engine', () => {
  it('tells of a row what it says of its prompt', async () => {
    const own = Array.from(groups, Number);
    const given = { P, R, T, data: logprobs.data, lengths, own };
    const found = await run('docs/reference/api.md', 1, given, 'return { firstInvalid, first, found };');
    expect(found).toEqual({ firstInvalid: null, first: expect.any(Number), found: true });
  });
});

describe('docs/reference/text-figures.md', () => {
  it('measures texts', async () => {
    const ids = Array.from(groups, Number);
    const texts = ids.map((id, row) => `prompt ${id} asks for the answer to row ${row}`);
    const prompts = ids.map((id) => `what is ${id}?`);
    const lines: unknown[][] = [];
    await run('docs/reference/text-figures.md', 0, {
      texts,
      groups,
      prompts,
      console: { log: (...line: unknown[]) => lines.push(line) },
    });
    expect(lines).toEqual([[expect.any(Number), expect.any(Number), 'asks for the answer to row']]);
  });
});

describe('docs/guide/cheaper-scoring.md', () => {
  const step = 1;

  it('estimates from a plan', async () => {
    const scoreUnder = (prompt: number, rows: Int32Array) => Float64Array.from(rows, (row) => sumOf(prompt, row));
    const given = { groups, lengths, promptTokens, step, scoreUnder };
    const after = 'return { values, certainty, error, absent, bounds, cost };';
    const found = (await run('docs/guide/cheaper-scoring.md', 0, given, after)) as PairEstimates;
    expect(found.values.mi_seq_estimate).toBeGreaterThan(0);
    expect(found.cost.pairs).toBe(P * R);
  });

  it('scores in rounds', async () => {
    const score = (rows: Int32Array, prompts: Int32Array) =>
      Float64Array.from(rows, (row, at) => sumOf(prompts[at] as number, row));
    await using engine = await collapsar.openEngine({ device: 'cpu', threads: 1 });
    const given = { engine, groups, lengths, promptTokens, step, score };
    const found = await run('docs/guide/cheaper-scoring.md', 1, given, 'return { reason, estimates };');
    expect(found).toMatchObject({ reason: expect.stringMatching(/^(width|all scored|responses)$/) });
    expect(found).toHaveProperty('estimates.values.mi_seq_estimate');
  });
});

describe('docs/reference/cli.md', () => {
  it('writes the directory of results', async () => {
    for (const step of [1, 2]) await putStep(`runs/grpo-7b/step_${step}.safetensors`, smallStep(step));
    await run('docs/reference/cli.md', 0, {});
    expect(readdirSync('results').sort()).toEqual([
      'matrices.parquet',
      'metrics.jsonl',
      'metrics.parquet',
      'prompts.parquet',
      'summary.json',
      'texts.parquet',
    ]);
    const summary = await files.readFile('results/summary.json', 'utf8');
    await files.rename('runs', 'unmounted');
    await run('docs/reference/cli.md', 0, {});
    await files.rename('unmounted', 'runs');
    expect(await files.readFile('results/summary.json', 'utf8')).toBe(summary);
  });
});

describe('docs/reference/filter.md', () => {
  it('keeps and drops what it says', async () => {
    const result = await run('docs/reference/filter.md', 0, {}, 'return result;');
    expect(result).toMatchObject({
      kept: [0, 2],
      dropped: [{ group: 1, reason: 'zero_score' }],
      rowMask: Uint8Array.of(1, 1, 1, 1, 0, 0, 0, 0, 1, 1, 1, 1),
    });
  });
});

describe('docs/reference/logits.md', () => {
  it('gives a row’s entropy and a sequence’s', async () => {
    const given = { N: 4, V: 10, targets: [1, 2, 3, 4], lengths: [1, 3] };
    const { entropy, meanEntropy } = (await run('docs/reference/logits.md', 0, given, 'return stats;')) as LogitStats;
    expect(entropy?.[3]).toBeCloseTo(Math.log(10), 9);
    expect(meanEntropy?.[0]).toBeCloseTo(Math.log(10), 9);
  });
});

describe('docs/guide/monitor.md', () => {
  it('continues where it was saved', async () => {
    const logged: number[] = [];
    const trainer = (steps: number) => ({
      steps,
      rollout: () => ({ promptOfRow: groups, reasoningLengths: lengths, rewards, actions: groups, valid: undefined }),
      logprobs: (prompt: number) => tensorOf(prompt),
      log: (n: number) => logged.push(n),
      update: (_: unknown, mask: Uint8Array) => expect(mask).toHaveLength(R),
    });
    const quiet = { log() {} };
    await run('docs/guide/monitor.md', 0, { trainer: trainer(2), console: quiet });
    await run('docs/guide/monitor.md', 0, { trainer: trainer(3), console: quiet });
    expect(logged).toEqual([1, 2, 3]);
    // A crash while the next state is written costs nothing.
    writeFileSync('monitor.json.tmp', '{"format":"colla');
    await run('docs/guide/monitor.md', 0, { trainer: trainer(4), console: quiet });
    expect(logged).toEqual([1, 2, 3, 4]);
    expect(existsSync('monitor.json.tmp')).toBe(false);
  });
});

describe('docs/guide/shards.md', () => {
  it('measures shards and analyses their journals', async () => {
    for (const step of [1, 2, 3]) await putStep(`runs/a/step_${step}.safetensors`, smallStep(step));
    const steps: unknown[] = [];
    await run('docs/guide/shards.md', 0, { console: { log: ({ step }: { step: number }) => steps.push(step) } });
    expect(steps.slice(0, 3)).toEqual([1, 2, 3]);
  });
});

describe('docs/reference/step-file.md', () => {
  it('writes steps and reads them', async () => {
    const [prompts, rows, tokens] = [P, R, T];
    const given = { prompts, rows, tokens, lengths, group: groups, rewards, data: new Uint16Array(P * R * T) };
    await files.mkdir('run', { recursive: true });
    await run('docs/reference/step-file.md', 0, given);
    const [step] = await listSteps('run');
    expect(step).toMatchObject({ step: 120, run: 'grid-noisy' });
    await run('docs/reference/step-file.md', 1, { console: { error: expect.unreachable } });
  });
});

describe('docs/reference/verdicts.md', () => {
  it('judges a step, and goes on from what was saved', async () => {
    const given = { step: 1, metrics: undefined, groups, rewards, actions: groups, success: 0.5 };
    const after = 'return { regime, verdicts, summary: judge.summary(), later: later.summary() };';
    const found = (await run('docs/reference/verdicts.md', 0, given, after)) as Record<string, unknown>;
    expect(found.verdicts).toEqual([]);
    expect(found.later).toEqual(found.summary);
  });
});

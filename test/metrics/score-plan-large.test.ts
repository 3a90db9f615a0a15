// Plans of many prompts: memory and time follow what is scored, not the square of the prompts.
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Engine } from '../../src/engine/engine.js';
import { openEngine } from '../../src/engine/open-engine.js';
import { estimateFromPairs } from '../../src/metrics/sampled/estimates.js';
import { planScores } from '../../src/metrics/sampled/plan.js';
import { ScoreRounds } from '../../src/metrics/sampled/rounds.js';

let engine: Engine;
beforeAll(async () => {
  engine = await openEngine({ device: 'cpu', threads: 2 });
});
afterAll(() => engine.dispose());

const stepOf = (prompts: number, each: number) => ({
  groups: Int32Array.from({ length: prompts * each }, (_, row) => Math.floor(row / each)),
  lengths: new Int32Array(prompts * each).fill(7),
});

describe('a plan of many prompts', () => {
  it.each([[false], [true]])('holds no list of the others for each of them (turns: %s)', (hard) => {
    const PROMPTS = 5000;
    const promptTurns = hard ? Int32Array.from({ length: PROMPTS }, (_, prompt) => prompt % 3) : undefined;
    const { layout, rows } = planScores({ ...stepOf(PROMPTS, 2), promptTurns }, { negatives: 4 });
    const buffers = new Set<ArrayBufferLike>();
    for (const { strata, drawn } of layout.rows) {
      for (const { listed } of strata) buffers.add(listed.buffer);
      for (const negatives of drawn) buffers.add(negatives.buffer);
    }
    let bytes = 0;
    for (const { byteLength } of buffers) bytes += byteLength;
    // Some numbers a prompt, and those that were drawn.
    expect(bytes).toBeLessThan(Int32Array.BYTES_PER_ELEMENT * (8 * PROMPTS + rows.length));
  });

  it('survives being sent to a worker', async () => {
    const plan = planScores(stepOf(40, 3), { negatives: 5 });
    const sums = Float64Array.from(plan.rows, (row, at) => -((row * 31 + at * 17) % 97) / 7);
    const found = await estimateFromPairs(engine, structuredClone(plan), { sums });
    expect(found).toEqual(await estimateFromPairs(engine, plan, { sums }));
  });
});

it('rounds begin without the pairs of all rounds', () => {
  const [PROMPTS, EACH] = [4000, 8];
  // All pairs are 128 million, of which the first round has one in a thousand.
  const rounds = new ScoreRounds(engine, stepOf(PROMPTS, EACH), { width: 0.1 });
  // 3 negatives a row, then 6, 12, … up to all 3,999.
  expect(rounds.looks).toBe(1 + Math.ceil(Math.log2((PROMPTS - 1) / 3)));
  const first = rounds.next();
  expect(first?.rows).toHaveLength(4 * PROMPTS * EACH);
  expect(first?.byPrompt.reduce((pairs, { rows }) => pairs + rows.length, 0)).toBe(4 * PROMPTS * EACH);
});

it('rounds are their own, whatever becomes of the arrays that were given', async () => {
  const rounds = new ScoreRounds(engine, stepOf(9, 4), { width: 1e-6 });
  const scored = new Set<string>();
  for (let round = rounds.next(); round !== undefined; round = rounds.next()) {
    for (const [at, row] of round.rows.entries()) scored.add(`${row}/${round.prompts[at]}`);
    const sums = Float64Array.from(round.rows, (row, at) => -((row * 31 + (round?.prompts[at] ?? 0) * 17) % 97) / 7);
    structuredClone(round.rows, { transfer: [round.rows.buffer as ArrayBuffer] });
    await rounds.add({ sums });
  }
  expect(scored.size).toBe(rounds.result().estimates?.cost.pairs);
});

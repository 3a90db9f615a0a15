// Steps with all their scores, for tests that score only some of them.
import fc from 'fast-check';
import type { Engine } from '../../src/engine/engine.js';
import type { StepData } from '../../src/logs/steps/step-data.js';
import type { ScorePlan } from '../../src/metrics/sampled/plan.js';
import { uniformNumbers } from '../support/random-numbers.js';

export interface SampledStep {
  readonly input: {
    readonly groups: number[];
    readonly lengths: number[];
    readonly columnGroups: number[];
    readonly promptTokens: number[][];
  };
  /** [R][P] as the input numbers prompts; equal prompts have equal scores. */
  readonly sums: number[][];
}

/** One sum a pair, in the plan's order. */
export function scoresOf({ sums }: SampledStep, plan: { rows: Int32Array; prompts: Int32Array }): Float64Array {
  return Float64Array.from(plan.rows, (row, at) => sums[row]?.[plan.prompts[at] as number] as number);
}

/** The pairs as [row, prompt]. */
export function pairsOf(plan: ScorePlan): [number, number][] {
  return Array.from(plan.rows, (row, at) => [row, plan.prompts[at] as number]);
}

/** Any step of up to 9 prompts, some of them equal, with ties, rows without reasoning and scores that are −∞ or NaN. */
export function drawnStep(): fc.Arbitrary<SampledStep> {
  const score = fc.oneof(
    // On a grid: of differences like 1e-160 only the squares' underflow could be compared.
    { weight: 20, arbitrary: fc.integer({ min: -3e7, max: 0 }).map((millionths) => millionths / 1e6) },
    { weight: 4, arbitrary: fc.integer({ min: -3, max: 0 }) },
    { weight: 1, arbitrary: fc.constantFrom(Number.NEGATIVE_INFINITY, Number.NaN, -700) },
  );
  return fc.integer({ min: 1, max: 9 }).chain((prompts) =>
    fc
      .record({
        tokens: fc.array(fc.integer({ min: 0, max: 6 }), { minLength: prompts, maxLength: prompts }),
        ids: fc.uniqueArray(fc.integer({ min: 0, max: 99 }), { minLength: prompts, maxLength: prompts }),
        rows: fc.array(
          fc.record({
            own: fc.integer({ min: 0, max: prompts - 1 }),
            length: fc.integer({ min: 0, max: 5 }),
            scores: fc.array(score, { minLength: 7, maxLength: 7 }),
          }),
          { minLength: 1, maxLength: 14 },
        ),
      })
      .map(({ tokens, ids, rows }) => ({
        input: {
          groups: rows.map(({ own }) => ids[own] as number),
          lengths: rows.map(({ length }) => length),
          columnGroups: ids,
          promptTokens: tokens.map((token) => [1, token]),
        },
        sums: rows.map(({ scores }) => tokens.map((token) => scores[token] as number)),
      })),
  );
}

/** A step of a log, its tokens summed. */
export async function stepOf(engine: Engine, data: StepData): Promise<SampledStep> {
  if (data.scores.kind !== 'logprobs') throw new Error('a step with token log-probs is needed');
  const [, rows] = data.scores.shape;
  const sums = Array.from({ length: rows }, (): number[] => []);
  for await (const { logprobs } of data.scores.blocks()) {
    const block = await engine.sumTokens(logprobs, data.lengths);
    const count = logprobs.shape[0] as number;
    sums.forEach((scores, row) => {
      for (let p = 0; p < count; p++) scores.push(block.sums.data[row * count + p] as number);
    });
  }
  const numbers = (values: ArrayLike<number | bigint>) => Array.from(values, Number);
  return {
    input: {
      groups: numbers(data.group),
      lengths: numbers(data.lengths),
      columnGroups: numbers(data.columnGroup),
      promptTokens: (data.prompts ?? []).map(numbers),
    },
    sums,
  };
}

export interface KnownStep extends SampledStep {
  /** Expectations over the responses, prompts fixed: exact sums over all outcomes. */
  readonly truth: { mi_seq_estimate: number; mi_per_token: number; reasoning_entropy_seq_est: number };
}

/**
 * Responses of policies that are known: each of 48 outcomes of one or two tokens, logits `strength` apart between
 * prompts; sampled at a temperature that the scores do not know of.
 */
export function knownStep(
  seed: number,
  model: { prompts: number; rowsPerPrompt: number; strength: number; temperature?: number },
): KnownStep {
  const { temperature = 1 } = model;
  const uniform = uniformNumbers(seed * 7919);
  const bell = () => Math.sqrt(-2 * Math.log(1 - uniform())) * Math.cos(2 * Math.PI * uniform());
  const outcomes = 48;
  const common = Array.from({ length: outcomes }, () => 0.7 * bell());
  const policies = Array.from({ length: model.prompts }, () => {
    const logits = common.map((logit) => logit + model.strength * bell());
    const total = Math.log(logits.reduce((sum, logit) => sum + Math.exp(logit), 0));
    return logits.map((logit) => logit - total);
  });
  const lengthOf = (z: number) => 1 + (z % 2);
  const truth = { mi_seq_estimate: 0, mi_per_token: 0, reasoning_entropy_seq_est: 0 };
  for (const policy of policies) {
    policy.forEach((log, z) => {
      const marginal = Math.log(
        policies.reduce((sum, other) => sum + Math.exp(other[z] as number), 0) / policies.length,
      );
      const share = Math.exp(log) / policies.length;
      truth.mi_seq_estimate += share * (log - marginal);
      truth.mi_per_token += (share * (log - marginal)) / lengthOf(z);
      truth.reasoning_entropy_seq_est -= share * marginal;
    });
  }
  const groups: number[] = [];
  const lengths: number[] = [];
  const sums: number[][] = [];
  policies.forEach((policy, p) => {
    const mass = policy.reduce((sum, log) => sum + Math.exp(log / temperature), 0);
    const chances = policy.map((log) => (temperature === 1 ? Math.exp(log) : Math.exp(log / temperature) / mass));
    for (let k = 0; k < model.rowsPerPrompt; k++) {
      let left = uniform();
      let z = 0;
      while (z + 1 < outcomes && left >= (chances[z] as number)) left -= chances[z++] as number;
      groups.push(p);
      lengths.push(lengthOf(z));
      sums.push(policies.map((other) => other[z] as number));
    }
  });
  const columnGroups = Array.from(policies.keys());
  return { input: { groups, lengths, columnGroups, promptTokens: columnGroups.map((p) => [p]) }, sums, truth };
}

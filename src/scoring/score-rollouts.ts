// Computes the cross-scores of a step of a trainer's rollout log with an inference engine.
import { ArgumentError, FileError } from '../checks/errors.js';
import { openEngine } from '../engine/open-engine.js';
import type { ReasoningTags } from '../logs/rollouts/reasoning.js';
import type { RolloutStep } from '../logs/rollouts/rollout.js';
import type { StepToWrite } from '../logs/steps/write-step.js';
import { estimateFromPairs, type PairEstimates } from '../metrics/sampled/estimates.js';
import { planScores } from '../metrics/sampled/plan.js';
import { type ScoredRow, type ScorePairsOptions, scorePairs } from './score-pairs.js';
import type { ScoringEngine } from './scoring-engine.js';
import type { TextTokenizer } from './text-tokenizer.js';
import { tokenized } from './tokenized.js';

/** Options of `scoreRollouts`. */
export interface ScoreRolloutsOptions extends ScorePairsOptions {
  /** The policy's, for logs of texts (`openTokenizer`). Step files note that their tokens are approximate. */
  readonly tokenizer?: TextTokenizer | undefined;
  /** Tags that the step was read with. Default <think>, </think>. */
  readonly reasoning?: ReasoningTags | undefined;
  /** Score each row under its own prompt and this number of others, at least 3. Default: under all. */
  readonly negatives?: number | undefined;
  /** Seed of the draw. Default 0. */
  readonly seed?: number | undefined;
  /** Called once, with how many pairs will be scored. */
  readonly onPlan?: ((pairs: number) => void) | undefined;
}

/** What scoring a step of rollouts gives: a whole step, or estimates from sampled pairs. */
export type ScoredRollouts =
  | { readonly kind: 'step'; readonly step: StepToWrite }
  | {
      readonly kind: 'estimates';
      readonly estimates: PairEstimates;
      /** What made them. */
      readonly metadata: Readonly<Record<string, string>>;
    };

/**
 * Scores a step.
 * @returns a step to be written, or with `negatives` the estimates from them
 * @throws {FileError} for a step without token ids or groups; {ScoringError} naming row and prompt
 * @example
 * import { writeStep } from 'collapsar';
 * import { readRollouts } from 'collapsar/logs';
 * import { openScoringEngine, scoreRollouts } from 'collapsar/scoring';
 *
 * const url = 'http://127.0.0.1:8000';
 * const engine = await openScoringEngine('vllm', url);
 * for await (const rollouts of readRollouts('rollouts/')) {
 *   const scored = await scoreRollouts(engine, rollouts, { urls: [url], signal });
 *   if (scored.kind === 'step') await writeStep(`steps/step_${rollouts.step}.safetensors`, scored.step);
 * }
 */
export async function scoreRollouts(
  engine: ScoringEngine,
  rollouts: RolloutStep,
  options: ScoreRolloutsOptions,
): Promise<ScoredRollouts> {
  const { tokenizer, reasoning: tags } = options;
  const { rows, prompts, group } = scorable(tokenizer ? tokenized(rollouts, tokenizer, tags) : rollouts);
  const isApproximate = tokenizer && (rollouts.tokens === undefined || rollouts.promptTokens === undefined);
  const metadata = {
    ...engine.described,
    // Whatever the rollouts were sampled at: engines score at 1.
    score_temperature: '1',
    ...(isApproximate && { tokens: `approximate: of the texts, by the tokenizer of ${tokenizer.name}` }),
  };
  const lengths = Int32Array.from(rows, ({ reasoning }) => reasoning.length);
  const { negatives, seed = 0 } = options;
  if (negatives !== undefined) {
    const plan = planScores(
      { groups: group, lengths, promptTokens: prompts },
      { negatives, seed: seed + rollouts.step },
    );
    options.onPlan?.(plan.rows.length);
    const place = new Map<string, number>();
    for (const [at, row] of plan.rows.entries()) place.set(`${row},${plan.prompts[at]}`, at);
    const sums = new Float64Array(plan.rows.length);
    const take = (row: number, prompt: number, sum: number): void => {
      sums[place.get(`${row},${prompt}`) as number] = sum;
    };
    await scorePairs(engine, prompts, rows, plan.byPrompt, take, options);
    await using computing = await openEngine({ device: 'cpu', signal: options.signal });
    const estimates = await estimateFromPairs(computing, plan, { sums }, { signal: options.signal });
    return { kind: 'estimates', estimates, metadata };
  }
  const R = rows.length;
  const P = prompts.length;
  const sums = new Float64Array(R * P);
  const all = Int32Array.from({ length: R }, (_, row) => row);
  options.onPlan?.(lengths.filter((length) => length > 0).length * P);
  const pairs = prompts.map((_, prompt) => ({ prompt, rows: all }));
  await scorePairs(
    engine,
    prompts,
    rows,
    pairs,
    (row, prompt, sum) => {
      sums[row * P + prompt] = sum;
    },
    options,
  );
  const { reward, outcome, truncated } = rollouts;
  const finite = (values: Float64Array | undefined): Float64Array | undefined =>
    values?.every(Number.isFinite) ? values : undefined;
  return {
    kind: 'step',
    step: {
      step: rollouts.step,
      run: rollouts.run,
      metadata,
      sums: { data: sums, dtype: 'float64', shape: [R, P] },
      lengths,
      group,
      prompts: prompts.map((tokens) => Int32Array.from(tokens)),
      ...(finite(reward) && { rewards: reward }),
      ...(finite(outcome) && { outcome }),
      ...(truncated && { valid: truncated.map((cut) => 1 - cut) }),
    },
  };
}

interface Scorable {
  readonly rows: ScoredRow[];
  /** Token ids of each group's prompt, by index. */
  readonly prompts: number[][];
  readonly group: Int32Array;
}

/** @throws {FileError} naming the column or the row that is missing */
function scorable({
  files,
  group,
  groupIds,
  tokens,
  promptTokens,
  reasoningTokens,
  rows: R,
  step,
}: RolloutStep): Scorable {
  const fail = (problem: string): never => {
    throw new FileError({ path: files[0] ?? 'rollouts' }, `step ${step}: ${problem}`);
  };
  if (group === undefined) return fail('nothing tells which prompt a row is of: give --group-size');
  if (tokens === undefined || promptTokens === undefined) {
    return fail("the log has no token ids of prompts and responses: give the policy's tokenizer (--tokenizer)");
  }
  const prompts: (number[] | undefined)[] = groupIds.map(() => undefined);
  const rows = Array.from({ length: R }, (_, row): ScoredRow => {
    const ids = tokens[row];
    const prompt = promptTokens[row];
    if (ids === undefined || prompt === undefined) return fail(`row ${row} has no token ids`);
    if (prompt.length === 0) return fail(`row ${row} has a prompt without tokens`);
    const of = group[row] as number;
    const known = prompts[of];
    if (known === undefined) prompts[of] = Array.from(prompt);
    else if (known.length !== prompt.length || known.some((id, at) => id !== prompt[at])) {
      return fail(`row ${row} has another prompt than the rows of its group before it`);
    }
    const reasoning = reasoningTokens?.[row] ?? ids;
    return { lead: Array.from(ids.subarray(0, startOf(ids, reasoning))), reasoning: Array.from(reasoning) };
  });
  const missing = prompts.indexOf(undefined);
  if (missing >= 0) throw new ArgumentError('rollouts.group', `group ${groupIds[missing]} has no row`);
  return { rows, prompts: prompts as number[][], group };
}

/** Where the reasoning begins in the response; at 0 if it is not a part of it. */
function startOf(ids: Int32Array, reasoning: Int32Array): number {
  if (reasoning.buffer === ids.buffer) return (reasoning.byteOffset - ids.byteOffset) / 4;
  for (let from = 0; from + reasoning.length <= ids.length; from++) {
    if (reasoning.every((id, at) => ids[from + at] === id)) return from;
  }
  return 0;
}

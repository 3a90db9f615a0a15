// Down the chain X → Z → A: does the action depend on the prompt, and, given the prompt, on the reasoning? Both against
// labels permuted within the step (docs/reference/verdicts.md).

import { type NumberedLabels, numbered } from '../../checks/ids.js';
import { figure, pWords } from '../../checks/numbers.js';
import { count, fields, nullable, type Shaped } from '../../checks/saved.js';
import type { Integers } from '../../engine/tensor/tensor.js';
import { randomState } from '../../metrics/sampling/random.js';
import { rowsByGroup } from '../evidence/group-outcomes.js';
import type { ReasoningSwaps } from '../evidence/step-evidence.js';
import { START_STEPS } from '../levels/run-level.js';
import { type Counting, shuffleCount } from '../statistics/shuffle-counts.js';
import type { Finding } from '../verdict.js';

/** Information between labels, with its permutation p-value. */
export interface Information {
  /** nats; can come out slightly negative if there is none. */
  readonly estimate: number;
  /** P(as much), were the one independent of the other; NaN without permutations. */
  readonly pValue: number;
}

/**
 * I(X;A) from how often each action follows each prompt: plug-in with the Miller–Madow correction of each entropy.
 * @returns null with fewer than two prompts or rows
 */
export function* actionInformation(
  groups: Integers,
  actions: Integers,
  permutations: number,
  seed: number,
): Counting<Information | null> {
  const prompts = numbered(groups);
  const kinds = numbered(actions);
  const rows = groups.length;
  if (rows < 2 || prompts.count < 2) return null;
  const logOf = Float64Array.from({ length: rows + 1 }, (_, n) => (n > 1 ? n * Math.log(n) : 0));
  /** What the (n + 1)-th row of a cell adds to Σ n ln n. */
  const growth = Float64Array.from({ length: rows }, (_, n) => (logOf[n + 1] as number) - (logOf[n] as number));
  const sizesOfPrompts = sizesOf(prompts);
  const byPrompt = Int32Array.from(prompts.labels.keys()).sort(
    (a, b) => (prompts.labels[a] as number) - (prompts.labels[b] as number) || a - b,
  );
  const { labels, count: kindCount } = kinds;
  const state = randomState(seed);
  const seen = yield* shuffleCount(
    'actionDependence',
    labels,
    byPrompt,
    sizesOfPrompts,
    growth,
    kindCount,
    permutations,
    state,
  );
  let marginalLogs = 0;
  for (const n of [...sizesOfPrompts, ...sizesOf(kinds)]) marginalLogs += logOf[n] as number;
  // I = H(X) + H(A) − H(X,A), H = ln N − Σ n ln n / N; Miller–Madow adds (occupied − 1) / 2N to each.
  const plugIn = Math.log(rows) + (seen.logs - marginalLogs) / rows;
  const estimate = plugIn + (prompts.count + kindCount - seen.occupied - 1) / (2 * rows);
  return { estimate, pValue: permutations > 0 ? (1 + seen.asDependent) / (1 + permutations) : Number.NaN };
}

/**
 * I(Z;A|X) in nats an action: how much likelier each action is under its own reasoning than under the reasonings of all
 * rows of its prompt. The p-value swaps reasonings within prompts. −inf is a score: under that reasoning the action is
 * impossible, as with decoding that a grammar or a mask restricts. A prompt is left out for a NaN, a +inf, and for an
 * action that is impossible under its own reasoning.
 * @returns null if no prompt with two rows or more is left
 */
export function* reasoningInformation(
  groups: Integers,
  swaps: ReasoningSwaps,
  permutations: number,
  seed: number,
): Counting<Information | null> {
  const rows = groups.length;
  const byGroup = rowsByGroup(groups);
  const isScore = (value: number, isOwn: boolean): boolean =>
    Number.isFinite(value) || (value === Number.NEGATIVE_INFINITY && !isOwn);
  let used = 0;
  let observed = 0;
  let marginal = 0;
  const sizes: number[] = [];
  // Scores of each prompt as a square, one after the other: action of one row under the reasoning of another.
  const squares = new Float64Array([...byGroup.values()].reduce((sum, members) => sum + members.length ** 2, 0));
  let end = 0;
  for (const members of byGroup.values()) {
    const k = members.length;
    const square = squares.subarray(end, end + k * k);
    let usable = k >= 2;
    for (let action = 0; action < k; action++) {
      for (let reasoning = 0; reasoning < k; reasoning++) {
        const q = swaps.reasonings === rows ? (members[reasoning] as number) : reasoning;
        const value = swaps.logprobs[q * rows + (members[action] as number)] as number;
        usable &&= isScore(value, action === reasoning);
        square[action * k + reasoning] = value;
      }
    }
    if (!usable) continue;
    end += k * k;
    sizes.push(k);
    used += k;
    for (let action = 0; action < k; action++) {
      observed += square[action * k + action] as number;
      marginal += logMeanExp(square.subarray(action * k, (action + 1) * k));
    }
  }
  if (used === 0) return null;
  // Sums of the same terms in another order differ by rounding: that is a tie.
  const least = observed - 1e-9 * Math.max(1, Math.abs(observed));
  const state = randomState(seed);
  const reached = yield* shuffleCount(
    'matchedOrders',
    squares.subarray(0, end),
    Int32Array.from(sizes),
    least,
    permutations,
    state,
  );
  return {
    estimate: (observed - marginal) / used,
    pValue: permutations > 0 ? (1 + reached) / (1 + permutations) : Number.NaN,
  };
}

function logMeanExp(values: Float64Array): number {
  const most = values.reduce((top, value) => Math.max(top, value), Number.NEGATIVE_INFINITY);
  return most + Math.log(values.reduce((sum, value) => sum + Math.exp(value - most), 0) / values.length);
}

/** How many rows have each label. */
function sizesOf({ labels, count: many }: NumberedLabels): Int32Array {
  const sizes = new Int32Array(many);
  for (const label of labels) sizes[label] = (sizes[label] as number) + 1;
  return sizes;
}

/** p-values step by step: whether dependence was shown at the start, and for how long it has not been shown since. */
export const dependenceShape = fields({
  seen: count,
  shownAtStart: count,
  silent: count,
  silentSince: nullable(count),
});
type Dependence = Shaped<typeof dependenceShape>;

const SHOWN = 0.05;

/** This many successive computed steps without dependence end it: one in 20 comes by chance the other way, too. */
const SILENT_STEPS = 5;

export function noted(before: Dependence, step: number, pValue: number): Dependence {
  if (Number.isNaN(pValue)) return before;
  const shown = pValue <= SHOWN;
  return {
    seen: before.seen + 1,
    shownAtStart: before.shownAtStart + (before.seen < START_STEPS && shown ? 1 : 0),
    silent: shown ? 0 : before.silent + 1,
    silentSince: shown ? null : (before.silentSince ?? step),
  };
}

const LOST = {
  actions_ignore_prompt: {
    what: 'I(X;A)',
    words: 'the actions can no longer be told to depend on the prompt',
    advice:
      'The policy does the same whatever it is asked: look at the reward for a single action that always pays, and at the ' +
      'filter for prompts that give no signal.',
  },
  actions_ignore_reasoning: {
    what: 'I(Z;A|X)',
    words: 'given the prompt, the actions can no longer be told to depend on the reasoning',
    advice:
      'The reasoning has become decoration: the action is decided by the prompt alone. Reward that is paid through the ' +
      'reasoning (or shorter reasoning) brings them together.',
  },
} as const;

export function dependenceFinding(
  kind: keyof typeof LOST,
  dependence: Dependence,
  now: Information,
  permutations: number,
): Finding | undefined {
  const { shownAtStart, silent, silentSince } = dependence;
  if (shownAtStart < START_STEPS - 1 || silent < SILENT_STEPS || silentSince === null) return undefined;
  const { what, words, advice } = LOST[kind];
  return {
    kind,
    severity: 'warning',
    since: silentSince,
    evidence: { information: now.estimate, pValue: now.pValue, stepsWithout: silent, stepsWithAtStart: shownAtStart },
    advice,
    now: `${what} is ${figure(now.estimate)} nats (${pWords(now.pValue, permutations)})`,
    sentence:
      `Since step ${silentSince} ${words}: ${what} is ${figure(now.estimate)} nats (${pWords(now.pValue, permutations)}), without ` +
      `significance in ${silent} computed steps in succession; at the start it was there.`,
  };
}

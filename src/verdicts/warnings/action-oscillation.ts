// Detects actions that go round in circles: period-2 runs (A-B-A-B) against the same actions in random order, entropy
// in a sliding window, and repetition (docs/reference/verdicts.md).

import { numbered } from '../../checks/ids.js';
import { figure, percent, pWords } from '../../checks/numbers.js';
import { randomState } from '../../metrics/sampling/random.js';
import { type Counting, shuffleCount } from '../statistics/shuffle-counts.js';
import type { Finding } from '../verdict.js';

/** How often actions alternate between two. */
export interface ActionOscillation {
  /** Episodes of at least PERIODIC_TURNS turns: the others cannot show a period. */
  readonly episodes: number;
  /** Share of them with A-B-A-B, A ≠ B, somewhere. */
  readonly periodicShare: number;
  /** P(as many episodes with A-B-A-B), had each episode's actions come in random order. */
  readonly pValue: number;
  /** Mean entropy of the actions within WINDOW successive turns, nats; at most ln WINDOW. */
  readonly windowedEntropy: number;
  /** Mean over episodes of 1 − different actions / actions. */
  readonly repetition: number;
}

const PERIODIC_TURNS = 4;
const WINDOW = 8;

/** What would be rare by chance, at a look of every step. */
const LEVEL = 0.01;

/** Share of episodes from which oscillation is worth a word, and a warning. */
const SOME = 0.25;
const MOST = 0.5;

/** @param episodes actions of each episode in order; permutations of 0 give a p-value of NaN */
export function* actionOscillation(
  episodes: readonly (readonly (number | bigint)[])[],
  permutations: number,
  seed: number,
): Counting<ActionOscillation | null> {
  const long = episodes.filter((actions) => actions.length >= PERIODIC_TURNS);
  if (long.length === 0) return null;
  const lengths = Int32Array.from(long, (actions) => actions.length);
  const { labels } = numbered(long.flat());
  const seen = yield* shuffleCount('periodicEpisodes', labels, lengths, permutations, randomState(seed));
  const mean = (measure: (actions: readonly (number | bigint)[]) => number): number =>
    long.reduce((total, actions) => total + measure(actions), 0) / long.length;
  return {
    episodes: long.length,
    periodicShare: seen.periodic / long.length,
    pValue: permutations > 0 ? (1 + seen.asPeriodic) / (1 + permutations) : Number.NaN,
    windowedEntropy: mean(windowedEntropy),
    repetition: mean((actions) => 1 - new Set(actions).size / actions.length),
  };
}

/** Mean over all windows of the plug-in entropy; an episode shorter than the window is one. */
function windowedEntropy(actions: readonly (number | bigint)[]): number {
  const width = Math.min(WINDOW, actions.length);
  const windows = actions.length - width + 1;
  let total = 0;
  for (let from = 0; from < windows; from++) {
    const counts = new Map<number | bigint, number>();
    for (const action of actions.slice(from, from + width)) counts.set(action, (counts.get(action) ?? 0) + 1);
    for (const count of counts.values()) total -= (count / width) * Math.log(count / width);
  }
  return total / windows;
}

/** @param permutations behind the p-value */
export function oscillationFinding(step: number, found: ActionOscillation, permutations: number): Finding | undefined {
  const { episodes, periodicShare, pValue, windowedEntropy: entropy, repetition } = found;
  if (!(periodicShare >= SOME && pValue <= LEVEL)) return undefined;
  return {
    kind: 'oscillating_actions',
    severity: periodicShare >= MOST ? 'warning' : 'info',
    since: step,
    evidence: { episodes, periodicShare, pValue, windowedEntropy: entropy, repetition },
    advice:
      'The agent goes back and forth: show it its last actions, end or penalise episodes that return to a state, and filter ' +
      'such episodes out of the batch.',
    now: `it is ${percent(periodicShare)} of ${episodes} episodes (${pWords(pValue, permutations)})`,
    sentence:
      `${percent(periodicShare)} of ${episodes} episodes go A-B-A-B, more than the same actions in random order would ` +
      `(${pWords(pValue, permutations)}); repetition is ${figure(repetition)}.`,
  };
}

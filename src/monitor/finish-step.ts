// Finishes an open step: measures what was collected, and has the run take it. Where it fails, the run is as it was.
import { ArgumentError } from '../checks/errors.js';
import type { Engine } from '../engine/engine.js';
import type { FilterResult } from '../filter/filter-result.js';
import type { RowColumn, Spelling } from '../filter/input/sentences.js';
import type { ScorePlan } from '../metrics/sampled/plan.js';
import type { SamplerOptions } from '../metrics/sampling/samplers.js';
import { firstTexts } from '../step/first-texts.js';
import { measureStep, type StepRules } from '../step/measure-step.js';
import type { MeasuredTexts } from '../step/measured-texts.js';
import type { RewardBucket } from '../step/outcomes/reward-buckets.js';
import { bucketsOf, checkBuckets } from '../step/outcomes/step-buckets.js';
import type { StepExcerpts } from '../step/prompts/excerpts.js';
import type { Run } from '../step/run.js';
import { filterStep, settled } from '../step/step-filter.js';
import type { StepInput, StepRows } from '../step/step-input.js';
import type { StepReport } from '../step/step-report.js';
import type { CollectedScores } from './collected-scores.js';
import type { RunOptions } from './monitor-options.js';
import { groupOfPrompt, type OpenLabels, scoresOf } from './outcomes/step-labels.js';
import type { CheckedOutcomes } from './outcomes/step-outcomes.js';

export interface OpenStep {
  readonly step: number;
  readonly labels: OpenLabels;
  /** Samplers with the seed of this very step. */
  readonly samplers: readonly SamplerOptions[];
  /** Where few negatives are scored: which. */
  readonly plan: ScorePlan | undefined;
  /** Undefined if the step is not due. */
  readonly scores: CollectedScores | undefined;
  /** What the rows' texts say, where they were given. */
  readonly texts?: MeasuredTexts | undefined;
}

/** Where reports of a monitor are from, which has no files. */
export const PLACE = { directory: 'monitor', file: 'monitor/step' } as const;

/**
 * @param perPrompt whether somebody wants to know of single prompts, too
 * @throws {ArgumentError} (as a rejection) for outcomes that do not fit and missing scores; `signal.reason` when aborted
 */
export async function finishStep(
  run: Run,
  open: OpenStep,
  outcomes: CheckedOutcomes,
  options: RunOptions,
  perPrompt: boolean,
  engine: () => Promise<Engine>,
  signal: AbortSignal | undefined,
): Promise<StepReport<FilterResult>> {
  const { step, texts } = open;
  const rows = rowsOf(open.labels, outcomes, options);
  const { judge, firstTexts: before } = run.progress;
  const first = before ?? (texts?.rows && texts.figures.values.mi_bound !== undefined ? firstTexts(texts.rows) : null);
  const work = { perPrompt, firstRows: async () => first ?? undefined, signal };
  const rules = { ...rulesOf(options), judge: judge?.options ?? null };
  const measurement = await measureStep(engine, await inputOf(open, rows), rules, work);
  signal?.throwIfAborted();
  return run.take({ step, file: PLACE.file, bytes: 0, firstTexts: first }, measurement);
}

/** The step as it was collected. */
async function inputOf({ step, labels, samplers, plan, scores, texts }: OpenStep, rows: StepRows): Promise<StepInput> {
  return {
    step,
    scores: scores && { scores: scoresOf(labels, await scores.all()), samplers, plan },
    texts: texts && { ...texts, excerpts: texts.excerpts && withRewards(texts.excerpts, rows.rewards) },
    rows,
    prompts: {
      ids: Array.from({ length: labels.prompts }, (_, prompt) => groupOfPrompt(labels, prompt)),
      nameOf: (group) => group,
    },
  };
}

/** @throws {ArgumentError} if rewards are missing that the monitor filters by */
function rowsOf(
  { groups, episodes, turns, lengths }: OpenLabels,
  outcomes: CheckedOutcomes,
  { filter }: RunOptions,
): StepRows {
  if (outcomes.rewards === undefined && filter !== null) {
    const problem = 'missing: this monitor filters every step; give the reward of each row';
    throw new ArgumentError('outcomes.rewards', problem);
  }
  return { ...outcomes, groups, episodes, turns: episodes && turns, lengths };
}

function withRewards({ rows, rollouts }: StepExcerpts, rewards: StepRows['rewards']): StepExcerpts {
  const rewardOf = (row: number): number | null => {
    const reward = rewards?.[row];
    return typeof reward === 'number' && Number.isFinite(reward) ? reward : null;
  };
  return { rows, rollouts: rollouts.map((rollout) => ({ ...rollout, reward: rewardOf(rollout.row) })) };
}

/** Where a monitor's caller gave what the filter looks at. */
const ARGUMENTS: Readonly<Record<RowColumn, string>> = {
  rewards: 'outcomes.rewards',
  groups: 'groups',
  episodes: 'episodes',
  turns: 'turns',
  outcomes: 'outcomes.outcomes',
  entropies: 'outcomes.entropies',
  // `lengths` of a step are those of its reasoning.
  lengths: 'outcomes.responseLengths',
};

const SPELLING: Spelling = {
  argument: (column) => ARGUMENTS[column],
  options: {
    nonFinite: 'the option filter: { nonFinite: "exclude" }',
    singletons: 'filter.singletons',
    turnRewards: 'turnRewards',
    includeZero: 'set filter.includeZero to false',
  },
};

function rulesOf({ profile, permutations, seed, filter, turnRewards, buckets }: RunOptions): Omit<StepRules, 'judge'> {
  const rewards = { filter, turnRewards, spelling: SPELLING };
  return { profile, permutations, seed, ...rewards, rollouts: { buckets }, isLenient: false };
}

/** The buckets of a step without finishing it: what a trainer takes gradient norms of. */
export function previewBuckets(
  labels: OpenLabels,
  outcomes: CheckedOutcomes,
  options: RunOptions,
): readonly RewardBucket[] {
  checkBuckets(options.buckets, 'options.buckets');
  const rows = rowsOf(labels, outcomes, options);
  const rules = rulesOf(options);
  const filter = filterStep(rows, rules);
  if (filter === undefined)
    throw new ArgumentError('outcomes.rewards', 'missing: buckets are made by the rewards of each group');
  const usable = { ...rows, rewards: settled('rewards', rows, rules), outcomes: settled('outcomes', rows, rules) };
  return bucketsOf(usable, filter, { buckets: options.buckets, isFiltered: options.filter !== null }) ?? [];
}

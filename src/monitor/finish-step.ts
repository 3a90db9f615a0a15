// An open step and its outcomes in; its report and the run's progress after it out. Nothing is changed on the way: a
// step that fails leaves the run as it was, and `commit` is called in one go with the judge, which remembers.

import type { Engine } from '../engine/engine.js';
import type { FilterResult } from '../filter/index.js';
import { metricsOfScores } from '../metrics/cross-score-metrics.js';
import { RunningState, type RunningStateJson } from '../metrics/reporting/running-state.js';
import type { ScorePlan } from '../metrics/sampled/plan.js';
import type { SamplerOptions } from '../metrics/sampling/samplers.js';
import type { StepMetrics } from '../metrics/step-metrics.js';
import { TEXT_PREFIX, type TextMetrics } from '../metrics/text-metrics.js';
import type { EarlyStops } from '../verdicts/early-stop/early-stops.js';
import type { StepEvidence } from '../verdicts/evidence/step-evidence.js';
import type { Judge } from '../verdicts/judge.js';
import { readCheckedOn } from '../verdicts/step-reading.js';
import type { CollectedScores } from './collected-scores.js';
import { besideFirst, type FirstTexts, type MeasuredTexts } from './first-texts.js';
import type { RunOptions } from './monitor-options.js';
import type { MonitorReport } from './monitor-report.js';
import { meanRewardStd } from './outcomes/group-rewards.js';
import { rolloutMetrics } from './outcomes/rollout-metrics.js';
import { groupOfPrompt, type OpenLabels, scoresOf } from './outcomes/step-labels.js';
import type { CheckedOutcomes, EpisodeOutcomes } from './outcomes/step-outcomes.js';
import type { StepExcerpts } from './prompts/excerpts.js';
import { type PromptFindings, promptFindings } from './prompts/prompt-findings.js';
import { type PromptMeasurement, promptsOfScores, promptsOfTexts } from './prompts/prompt-measurement.js';
import { sampledMatched, sampledMetrics } from './sampled-step.js';
import { filteredGroups, stepBuckets, withEpisodeRewards } from './step-groups.js';

/** What a run carries from step to step. Immutable but for the judge, which takes a step in last. */
export interface RunProgress {
  /** The last finished step; null before the first. */
  readonly step: number | null;
  readonly averages: RunningStateJson;
  readonly earlyStops: EarlyStops;
  readonly judge: Judge | null;
  /** Null before the first step whose texts had figures. */
  readonly firstTexts: FirstTexts | null;
}

export interface OpenStep {
  readonly step: number;
  readonly labels: OpenLabels;
  /** Samplers with the seed of this very step. */
  readonly samplers: readonly SamplerOptions[];
  /** Where few negatives are scored: which. */
  readonly plan: ScorePlan | undefined;
  /** Undefined where the step is not due. */
  readonly scores: CollectedScores | undefined;
  /** What the rows' texts say, where they were given. */
  readonly texts?: MeasuredTexts | undefined;
}

/** A step that is through, and what it says of its prompts, where that was asked for. */
export interface FinishedStep extends PromptFindings {
  readonly report: MonitorReport;
  /** Some of its rollouts, where their texts were given. */
  readonly excerpts?: StepExcerpts | undefined;
}

/** @param perPrompt whether somebody wants to know of single prompts, too */
export async function finishStep(
  run: RunProgress,
  open: OpenStep,
  given: CheckedOutcomes,
  options: RunOptions,
  perPrompt: boolean,
  engine: () => Promise<Engine>,
  signal: AbortSignal | undefined,
  commit: (run: RunProgress) => void,
): Promise<FinishedStep> {
  const { step, labels, scores } = open;
  const { filter, groups } = filteredGroups(labels, given, options);
  const outcomes = withEpisodeRewards(labels, given, options);
  const { buckets, gradients, figures: ofBuckets } = stepBuckets(outcomes, options, groups, filter);
  const earlyStops = run.earlyStops.after(step, {
    meanRewardStd: groups && meanRewardStd(groups),
    filterEmpty: filter?.empty,
    success: outcomes.success,
  });

  const state = RunningState.from(run.averages);
  // Row by row only for the judge: reports stay as small as their figures.
  const perRow = run.judge !== null && options.profile === 'strict';
  const { measured, matched } =
    scores === undefined
      ? NOT_DUE
      : await sampleMetrics(open, scores, state, { perRow, perPrompt }, options, engine, signal);
  const samples = measured.map(({ perRow: _, perPrompt: __, ...sample }): StepMetrics => sample);
  // As JSON gives it back, so that a run that was saved and one that was not carry the same.
  const averages = JSON.parse(JSON.stringify(state)) as RunningStateJson;

  const { texts, first } = open.texts
    ? await besideFirst(engine, open.texts, run.firstTexts, signal)
    : { texts: undefined, first: run.firstTexts };
  const { metrics, absent, notes } = together(samples, texts);
  const rollouts = rolloutMetrics(labels, outcomes, options.profile, groups);
  Object.assign(metrics, rollouts, filter?.metrics);
  for (const warning of filter?.warnings ?? []) notes.add(warning);
  if (filter !== undefined) {
    metrics['rollout/empty_after_filter'] = filter.empty ? 1 : 0;
    const consecutive = earlyStops.consecutiveEmpty;
    if (consecutive !== undefined) metrics['rollout/consecutive_empty_after_filter_steps'] = consecutive;
  }
  Object.assign(metrics, ofBuckets);
  const { stops } = earlyStops;
  for (const { reason } of stops) metrics[`early_stopped/${reason}`] = 1;

  const evidence = evidenceOf(open, outcomes, measured[0], matched, rollouts, filter);
  const reading = run.judge && (await readCheckedOn(engine, evidence, run.judge.options, signal));
  signal?.throwIfAborted();
  const [stepMetrics] = samples;
  // Last, as it is the one thing here that remembers.
  const judgement = reading && run.judge?.take(reading, measured[0], texts);
  commit({ step, averages, earlyStops, judge: run.judge, firstTexts: first });
  const [stop] = stops;
  const report: MonitorReport = {
    step,
    due: scores !== undefined,
    metrics,
    absent,
    notes: [...notes],
    ...(stepMetrics && { stepMetrics }),
    ...(texts && { texts }),
    ...(samples.length > 1 && { samples }),
    ...(filter && { filter }),
    ...(buckets && { buckets }),
    ...(gradients && { gradients }),
    ...(judgement && { judgement }),
    ...(stop && { stop }),
    stops,
    lossScale: filter?.lossScale ?? 1,
  };
  if (!perPrompt || options.profile === 'ragen') return { report };
  const prompts = measuredPrompts(open, measured[0]);
  const found = promptFindings({ prompts, reading: reading ?? undefined, filter }, judgement ?? undefined);
  return { report, ...found, excerpts: open.texts?.excerpts && withRewards(open.texts.excerpts, given.rewards) };
}

function withRewards({ rows, rollouts }: StepExcerpts, rewards: CheckedOutcomes['rewards']): StepExcerpts {
  const rewardOf = (row: number): number | null => {
    const reward = rewards?.[row];
    return typeof reward === 'number' && Number.isFinite(reward) ? reward : null;
  };
  return { rows, rollouts: rollouts.map((rollout) => ({ ...rollout, reward: rewardOf(rollout.row) })) };
}

/** What the scores say of each prompt; where there are none, what the texts say; else who they are. */
function measuredPrompts({ labels, texts }: OpenStep, metrics: StepMetrics | undefined): PromptMeasurement {
  const named = texts?.perPrompt;
  if (metrics?.perPrompt === undefined && named !== undefined) return promptsOfTexts(named, (group) => group);
  const groups = Array.from({ length: labels.prompts }, (_, prompt) => groupOfPrompt(labels, prompt));
  return promptsOfScores(metrics?.perPrompt, groups);
}

/** What is logged of the samples of a step, and of its texts, in one. */
function together(samples: readonly StepMetrics[], texts: TextMetrics | undefined) {
  const metrics: Record<string, number> = {};
  const absent: Record<string, string> = {};
  const notes = new Set<string>();
  for (const sample of samples) {
    Object.assign(metrics, sample.logged);
    // Under `ragen` the report is what the reference logs and nothing else.
    if (sample.profile === 'ragen') continue;
    for (const [key, reason] of Object.entries(sample.absent)) absent[`${sample.label}/${key}`] = reason;
    for (const note of sample.notes) notes.add(samples.length > 1 ? `${sample.label}: ${note}` : note);
  }
  if (texts !== undefined) {
    Object.assign(metrics, texts.logged);
    for (const [key, reason] of Object.entries(texts.absent)) absent[TEXT_PREFIX + key] = reason;
    for (const note of texts.notes) notes.add(note);
  }
  return { metrics, absent, notes };
}

interface Measured {
  /** Metrics by sampler. */
  readonly measured: readonly StepMetrics[];
  /** [R] log p(z|x), where the metrics do not bring it along row by row. */
  readonly matched?: Float64Array;
}

const NOT_DUE: Measured = { measured: [] };

async function sampleMetrics(
  { step, labels, samplers, plan }: OpenStep,
  scores: CollectedScores,
  state: RunningState,
  { perRow, perPrompt }: { readonly perRow: boolean; readonly perPrompt: boolean },
  { profile, permutations, seed }: RunOptions,
  engine: () => Promise<Engine>,
  signal: AbortSignal | undefined,
): Promise<Measured> {
  const sums = await scores.all();
  if (plan !== undefined) {
    const common = { profile, permutations, seed, step, state, perRow, signal };
    const metrics = await sampledMetrics(await engine(), plan, labels, sums, common);
    return { measured: [metrics], ...(perRow && { matched: sampledMatched(plan, labels, sums, metrics) }) };
  }
  const found: StepMetrics[] = [];
  for (const [at, sampler] of (samplers.length === 0 ? [undefined] : samplers).entries()) {
    const rows = { perRow, perPrompt: perPrompt && at === 0 && profile === 'strict' };
    const common = { profile, permutations, seed, step, state, sampler, ...rows, signal };
    found.push(await metricsOfScores(await engine(), scoresOf(labels, sums), common));
  }
  return { measured: found };
}

function evidenceOf(
  { step, labels, texts }: OpenStep,
  outcomes: EpisodeOutcomes,
  metrics: StepMetrics | undefined,
  matched: Float64Array | undefined,
  rollouts: Readonly<Record<string, number>>,
  filter: FilterResult | undefined,
): StepEvidence {
  const { rewards, outcomes: unshaped, actions, ablated, reasoningSwaps, success, figures } = outcomes;
  const { groups, episodes, turns } = labels;
  const rates = Object.values(success ?? {});
  const validated = rates.length === 0 ? undefined : rates.reduce((total, rate) => total + rate, 0) / rates.length;
  return {
    step,
    metrics,
    rows: {
      groups,
      rewards,
      outcomes: unshaped,
      actions,
      episodes,
      turns: episodes && turns,
      matched,
      ablated,
      reasoningSwaps,
    },
    filter,
    // Success in training and in validation are two series: where the first is given, the judge reads it off the
    // outcomes.
    success: unshaped === undefined ? validated : undefined,
    // They are correlated with success: once a computed step, as the metrics are.
    figures: metrics === undefined && texts === undefined ? figures : { ...rollouts, ...figures },
  };
}

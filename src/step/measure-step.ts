// Measures one step, whatever the steps before it say: metrics of its scores, the filter's choice, the judge's reading.
import { ArgumentError } from '../checks/errors.js';
import type { Engine } from '../engine/engine.js';
import type { FilterResult } from '../filter/filter-result.js';
import type { Profile, StepMetrics } from '../metrics/step-metrics.js';
import type { JudgeSettings } from '../verdicts/judge-options.js';
import { besideFirst, type FirstRows } from './measured-texts.js';
import { groupRewards, meanRewardStd } from './outcomes/group-rewards.js';
import type { ResolvedBuckets } from './outcomes/reward-buckets.js';
import { rolloutMetrics } from './outcomes/rollout-metrics.js';
import { type SettledRows, stepBuckets } from './outcomes/step-buckets.js';
import { type PromptMeasurement, promptsOfScores, promptsOfTexts } from './prompts/prompt-measurement.js';
import { type MeasuredSamples, sampleMetrics } from './sample-metrics.js';
import { evidenceOf, readStep } from './step-evidence.js';
import { filterStep, type RewardRules, settled } from './step-filter.js';
import type { StepInput } from './step-input.js';
import type { RolloutFindings, StepMeasurement } from './step-measurement.js';

/** What a step is measured by. */
export interface StepRules extends RewardRules {
  readonly profile: Profile;
  readonly permutations?: number | undefined;
  readonly seed: number;
  /** Null if nothing is judged. */
  readonly judge: JudgeSettings | null;
  /** What a trainer knows of its rollouts is measured, too; false: a log has its own figures. */
  readonly rollouts: { readonly buckets: ResolvedBuckets | false } | false;
  /** Whether outcomes that cannot be used are left out, with a note; else they are an error. */
  readonly isLenient: boolean;
}

export interface StepWork {
  /** Whether somebody reads what there is to say of each prompt. */
  readonly perPrompt: boolean;
  /** What the template's phrases are held against. */
  readonly firstRows: FirstRows;
  readonly signal: AbortSignal | undefined;
}

/**
 * @param engine asked for when it is first needed
 * @throws {ArgumentError} for rows that do not fit, unless rules are lenient; `signal.reason` when aborted
 */
export async function measureStep(
  engine: () => Promise<Engine>,
  input: StepInput,
  rules: StepRules,
  { perPrompt, firstRows, signal }: StepWork,
): Promise<StepMeasurement<FilterResult>> {
  const { step, scores, rows } = input;
  const notes: string[] = [...(input.notes ?? [])];
  const attempt = attempts(rules.isLenient, notes);
  const filter = rows && (await attempt('no filter', () => filterStep(rows, rules)));
  const usable = rows && {
    ...rows,
    rewards: await attempt('left out of the verdicts: rewards', () => settled('rewards', rows, rules)),
    outcomes: await attempt('left out of the verdicts: outcomes', () => settled('outcomes', rows, rules)),
  };
  const rollouts = usable && rules.rollouts ? rolloutFindings(usable, filter, rules, rules.rollouts) : undefined;
  const isStrict = rules.profile === 'strict';
  const wanted = { perRow: isStrict && rules.judge !== null, perPrompt: isStrict && perPrompt, signal };
  const samples =
    scores === undefined ? NO_SAMPLES : await sampleMetrics(await engine(), scores, step, { ...wanted, ...rules });
  const texts = input.texts && (await besideFirst(engine, input.texts, firstRows, signal));
  const chosen = rules.filter === null ? undefined : filter;
  const reading =
    usable &&
    rules.judge &&
    (await attempt('no verdicts', () => {
      const evidence = { step, rows: usable, samples, texts, filter: chosen, rollouts: rollouts?.metrics };
      const leaveOut = (column: string, problem: string): void => {
        notes.push(`left out of the verdicts: ${column}: ${problem}`);
      };
      const { judge, isLenient } = rules;
      return readStep(engine, evidenceOf(evidence), judge as JudgeSettings, isLenient ? leaveOut : undefined, signal);
    }));
  const prompts = isStrict && perPrompt ? promptsOf(input, samples.samples[0]) : undefined;
  const excerpts = isStrict ? input.texts?.excerpts : undefined;
  const groupNames = prompts && input.prompts?.names;
  return {
    // One value a row was only for the judge: what is kept of a step is as small as its figures.
    metrics: samples.samples.map(({ perRow: _, perPrompt: __, ...sample }): StepMetrics => sample),
    ...(texts && { texts }),
    ...(prompts && { prompts }),
    ...(groupNames && { groupNames }),
    ...(excerpts && { excerpts }),
    ...(reading && { reading }),
    ...(chosen && { filter: chosen }),
    ...(rollouts && { rollouts }),
    notes,
  };
}

/** Runs what may fail for what the step holds; where rules are lenient, a note says what failed. */
function attempts(isLenient: boolean, notes: string[]) {
  return async <T>(what: string, work: () => T | Promise<T>): Promise<T | undefined> => {
    try {
      return await work();
    } catch (error) {
      if (!isLenient || !(error instanceof ArgumentError)) throw error;
      notes.push(`${what}: ${error.message}`);
      return undefined;
    }
  };
}

const NO_SAMPLES: MeasuredSamples = { samples: [] };

/** Means over rows that are all there, buckets, and what early stops look at. */
function rolloutFindings(
  rows: SettledRows,
  filter: FilterResult | undefined,
  { profile, filter: options }: StepRules,
  { buckets }: { readonly buckets: ResolvedBuckets | false },
): RolloutFindings {
  const std = filter && meanRewardStd(groupRewards(filter, rows.groups));
  return {
    metrics: rolloutMetrics(rows, profile, std),
    ...stepBuckets(rows, filter, { buckets, isFiltered: options !== null }),
    warnings: (options !== null && filter?.warnings) || [],
    meanRewardStd: std,
    success: rows.success,
  };
}

/** What the scores say of each prompt; if there are none, what the texts say; else who they are. */
function promptsOf({ prompts, texts }: StepInput, metrics: StepMetrics | undefined): PromptMeasurement | undefined {
  if (prompts === undefined) return undefined;
  const perPrompt = metrics?.perPrompt;
  if (perPrompt === undefined && texts?.perPrompt !== undefined) return promptsOfTexts(texts.perPrompt, prompts.nameOf);
  return promptsOfScores(perPrompt, prompts.ids);
}

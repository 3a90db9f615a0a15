// Takes the measured steps of one run in their order, and reports what depends on it: averages, early stops, verdicts.
import { metricsOnce } from '../filter/filter-metrics.js';
import { isCertaintyKey } from '../metrics/figures/certainty.js';
import { withAverages } from '../metrics/reporting/moving-averages.js';
import { RunningState, type RunningStateJson } from '../metrics/reporting/running-state.js';
import { TEXT_PREFIX } from '../metrics/text-metrics.js';
import { EarlyStops, type ResolvedEarlyStop } from '../verdicts/early-stop/early-stops.js';
import { Judge, type JudgeOptions, type RunSummary } from '../verdicts/index.js';
import type { FirstTexts } from './first-texts.js';
import { promptFindings } from './prompts/prompt-findings.js';
import type { FilterView, RolloutFindings, StepMeasurement } from './step-measurement.js';
import { type KeyChoice, stepRecord } from './step-record.js';
import type { StepReport } from './step-report.js';

/** What a run carries from step to step. Immutable but for the judge. */
export interface RunProgress {
  /** The last step; null before the first. */
  readonly step: number | null;
  readonly averages: RunningStateJson;
  readonly earlyStops: EarlyStops;
  readonly judge: Judge | null;
  /** Of a monitor: null before the first step whose texts had figures. */
  readonly firstTexts: FirstTexts | null;
}

/** @param judge false: nothing is judged */
export function startRun(judge: JudgeOptions | false, earlyStop: ResolvedEarlyStop): RunProgress {
  return {
    step: null,
    averages: new RunningState().toJSON(),
    earlyStops: EarlyStops.start(earlyStop),
    judge: judge === false ? null : new Judge(judge),
    firstTexts: null,
  };
}

/** Whether the filter kept no group, and for how many steps in a row. */
export const EMPTY_FILTER_KEYS = [
  'rollout/empty_after_filter',
  'rollout/consecutive_empty_after_filter_steps',
] as const;

/** A step as the run takes it. */
export interface TakenStep {
  readonly step: number;
  readonly file: string;
  readonly bytes: number;
  /** What phrases of later steps are held against. */
  readonly firstTexts?: FirstTexts | null | undefined;
}

export class Run {
  readonly #name: string;
  readonly #directory: string;
  readonly #choice: KeyChoice | undefined;
  #progress: RunProgress;
  /** The latest step, and the one that has its number. */
  #last: TakenStep | undefined;

  /** @param choice of the figures that are reported; default all */
  constructor(name: string, directory: string, progress: RunProgress, choice?: KeyChoice) {
    this.#name = name;
    this.#directory = directory;
    this.#progress = progress;
    this.#choice = choice;
  }

  get progress(): RunProgress {
    return this.#progress;
  }

  /** Where it fails, the run is as it was. */
  take<Filter extends FilterView & { readonly lossScale?: number }>(
    taken: TakenStep,
    measurement: StepMeasurement<Filter>,
  ): StepReport<Filter> {
    const { step, file, bytes } = taken;
    const { averages: before, earlyStops: stopsBefore, judge, firstTexts } = this.#progress;
    const { texts, excerpts, filter, rollouts = {}, reading } = measurement;
    const disorder = this.#last && disorderOf(taken, this.#last, this.#name);
    const isLater = disorder === undefined;

    const state = RunningState.from(before);
    const samples = measurement.metrics.map((sample) => withAverages(sample, state, step));
    const [stepMetrics] = samples;
    const { meanRewardStd, success, buckets, gradients, bucketMetrics }: Partial<RolloutFindings> = rollouts;
    const earlyStops = isLater
      ? stopsBefore.after(step, { meanRewardStd, filterEmpty: filter?.empty, success })
      : stopsBefore;
    // Last, as it is the one thing here that remembers.
    const judgement = isLater && judge && reading ? judge.take(reading, stepMetrics, texts) : undefined;

    const isStrict = stepMetrics?.profile !== 'ragen';
    const remarks = [...measurement.notes, ...(judgement?.notes ?? []), ...(isLater || !isStrict ? [] : [disorder])];
    const { metrics, absent, notes } = loggedParts({ ...measurement, metrics: samples, notes: remarks }, isStrict);
    const [isEmpty, inARow] = EMPTY_FILTER_KEYS;
    if (filter !== undefined) metrics[isEmpty] = filter.empty ? 1 : 0;
    const consecutive = earlyStops.consecutiveEmpty;
    if (filter !== undefined && isLater && consecutive !== undefined) metrics[inARow] = consecutive;
    Object.assign(metrics, bucketMetrics);
    const { stops } = earlyStops;
    const [stop] = stops;
    for (const { reason } of stops) metrics[`early_stopped/${reason}`] = 1;
    const report: Omit<StepReport<Filter>, 'record'> = {
      run: this.#name,
      step,
      due: samples.length > 0,
      ...this.#parted(metrics, isStrict),
      absent,
      notes: [...notes],
      remarks,
      ...(stepMetrics && { stepMetrics }),
      samples,
      ...(texts && { texts }),
      ...(excerpts && { excerpts }),
      ...(filter && { filter }),
      ...(buckets && { buckets }),
      ...(gradients && { gradients }),
      ...(judgement && { judgement }),
      ...promptFindings(measurement, judgement),
      ...(stop && { stop }),
      stops,
      lossScale: filter?.lossScale ?? 1,
      file,
      directory: this.#directory,
      bytes,
    };
    const record = stepRecord(report, this.#choice);
    // As JSON gives it back, so that a run that was saved and one that was not carry the same.
    const averages = JSON.parse(JSON.stringify(state)) as RunningStateJson;
    const first = taken.firstTexts ?? firstTexts;
    this.#progress = isLater
      ? { step, averages, earlyStops, judge, firstTexts: first }
      : { ...this.#progress, averages };
    if (isLater) this.#last = taken;
    return { ...report, record };
  }

  /** Verdicts of the run so far, and correlations with success; undefined if nothing is judged. */
  get summary(): (() => RunSummary) | undefined {
    const { judge } = this.#progress;
    return judge === null ? undefined : () => judge.summary();
  }

  /** Figures that were chosen, and, of `strict` apart from them, how sure they are. */
  #parted(logged: Readonly<Record<string, number>>, isStrict: boolean): Pick<StepReport, 'metrics' | 'certainty'> {
    const choice = this.#choice;
    const [metrics, certainty]: [Record<string, number>, Record<string, number>] = [{}, {}];
    for (const [key, value] of Object.entries(logged)) {
      const isSure = isStrict && isCertaintyKey(key);
      if (choice !== undefined && !choice.has(key) && !(isSure && choice.has('certainty'))) continue;
      (isSure ? certainty : metrics)[key] = value;
    }
    return { metrics, certainty };
  }
}

/** What is logged of a step, why the rest is absent, and what to know of it, in one. */
function loggedParts(
  { metrics: samples, texts, filter, rollouts, notes: remarks }: StepMeasurement,
  isStrict: boolean,
): {
  metrics: Record<string, number>;
  absent: Record<string, string>;
  notes: Set<string>;
} {
  const metrics: Record<string, number> = {};
  const absent: Record<string, string> = {};
  const notes = new Set(remarks);
  for (const sample of samples) {
    Object.assign(metrics, sample.logged);
    // Under `ragen` the report is what the reference logs and nothing else.
    if (!isStrict) continue;
    for (const [key, reason] of Object.entries(sample.absent)) absent[`${sample.label}/${key}`] = reason;
    for (const note of sample.notes) notes.add(samples.length > 1 ? `${sample.label}: ${note}` : note);
  }
  Object.assign(
    metrics,
    texts?.logged,
    rollouts?.metrics,
    isStrict ? metricsOnce(filter?.metrics ?? {}) : filter?.metrics,
  );
  for (const [key, reason] of Object.entries(texts?.absent ?? {})) absent[TEXT_PREFIX + key] = reason;
  for (const note of [...(texts?.notes ?? []), ...(rollouts?.warnings ?? [])]) notes.add(note);
  return { metrics, absent, notes };
}

/** What to tell the user of a step that is not later than the latest one before it. */
function disorderOf({ file, step }: TakenStep, last: TakenStep, run: string): string | undefined {
  if (step > last.step) return undefined;
  const effect = 'it has no verdicts, and the moving averages (*_ema_by_step) take it for the step after';
  if (step < last.step) {
    return (
      `out of order: step ${step} of run ${run} (${file}) comes after step ${last.step} (${last.file}): ${effect}; ` +
      'hand out the steps of a run in rising order'
    );
  }
  const where = file === last.file ? `twice from ${file}` : `from ${last.file} and from ${file}`;
  return `step ${step} of run ${run} comes ${where}: ${effect}; remove one of the two, or give it its own number`;
}

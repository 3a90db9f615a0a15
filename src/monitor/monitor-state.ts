// Saved state of a monitor: everything that later steps depend on, as plain JSON, and nothing else.
import { isDeepStrictEqual } from 'node:util';
import { ArgumentError, StateError } from '../checks/errors.js';
import { count, DamagedPart, fields, nothing, nullable, reject, SavedState } from '../checks/saved.js';
import { type RunningStateJson, runningStateShape } from '../metrics/reporting/running-state.js';
import { type FirstTexts, firstTextsShape } from '../step/first-texts.js';
import type { RunProgress } from '../step/run.js';
import { EarlyStops, type EarlyStopsJson, earlyStopsShape } from '../verdicts/early-stop/early-stops.js';
import { Judge, type JudgeJson, judgeShape } from '../verdicts/judge.js';
import {
  differingOption,
  givenOptions,
  type MonitorOptions,
  type RunOptions,
  reopenOptions,
} from './monitor-options.js';

const ABOUT = {
  format: 'collapsar/monitor',
  version: 1,
  is: 'monitor',
  from: 'Monitor.save()',
  without: 'start a new Monitor',
} as const;

/** What `save()` gives and `Monitor.restore` takes: plain JSON. */
export interface MonitorState {
  readonly format: typeof ABOUT.format;
  readonly version: typeof ABOUT.version;
  /** With which options the run was begun. */
  readonly options: RunOptions;
  /** The last finished step; null before the first. */
  readonly step: number | null;
  /** Moving averages of the collapse metrics. */
  readonly averages: RunningStateJson;
  readonly earlyStops: EarlyStopsJson;
  readonly judge: JudgeJson | null;
  /** What the rows of the first step with text figures say. */
  readonly firstTexts: FirstTexts | null;
}

/** A copy that later steps do not touch. */
export function saveRun(options: RunOptions, run: RunProgress): MonitorState {
  const { format, version } = ABOUT;
  const state = { format, version, options, ...run };
  return JSON.parse(JSON.stringify(state)) as MonitorState;
}

const savedOptions = new SavedState(ABOUT, fields({ options: runOptionsShape }));

const savedRun = (options: RunOptions) =>
  new SavedState(
    ABOUT,
    fields({
      step: nullable(count),
      averages: runningStateShape,
      earlyStops: earlyStopsShape(options.earlyStop),
      judge: options.judge === false ? nothing : judgeShape,
      firstTexts: firstTextsShape,
    }),
  );

/**
 * @param given options of the caller, each of which must be the run's own
 * @throws {StateError} if `state` is foreign, damaged, of another version, or of a run with other options
 */
export function restoreRun(state: unknown, given: MonitorOptions): { options: RunOptions; run: RunProgress } {
  const { options } = savedOptions.read(state);
  const differing = differingOption(givenOptions(given), options);
  if (differing !== undefined) {
    throw new StateError(
      `this run was begun with another option ${differing}: ${JSON.stringify(options[differing])}; leave the option out to ` +
        'continue with it, or start a new Monitor',
    );
  }
  const { step, averages, earlyStops, judge, firstTexts } = savedRun(options).read(state);
  if (judge !== null && judge.lastStep !== step) {
    throw new StateError('the saved monitor is damaged: its judge is of another step; start a new Monitor');
  }
  const run: RunProgress = {
    step,
    averages,
    earlyStops: EarlyStops.start(options.earlyStop, earlyStops),
    judge: judge && Judge.of(judge),
    firstTexts,
  };
  return { options, run };
}

/** Saved options are what resolveOptions() makes of themselves; anything else was not saved by it. */
function runOptionsShape(saved: unknown): RunOptions {
  try {
    const plain: unknown = JSON.parse(JSON.stringify(saved ?? null));
    const options = reopenOptions(plain);
    if (isDeepStrictEqual(JSON.parse(JSON.stringify(options)), plain)) return options;
  } catch (error) {
    if (!(error instanceof ArgumentError)) throw error;
    throw new DamagedPart(`does not hold: ${error.message}`, '', { cause: error });
  }
  return reject(saved, 'all options of a run');
}

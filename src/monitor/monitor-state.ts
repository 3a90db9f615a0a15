// What a monitor saves: everything that later steps depend on, as plain JSON, and nothing else.
import { isDeepStrictEqual } from 'node:util';
import { ArgumentError, StateError } from '../checks/errors.js';
import { SavedFields } from '../checks/saved-fields.js';
import { shown } from '../checks/words.js';
import { RunningState, type RunningStateJson } from '../metrics/reporting/running-state.js';
import { EarlyStops, type EarlyStopsJson } from '../verdicts/early-stop/early-stops.js';
import { Judge, type JudgeJson } from '../verdicts/index.js';
import type { RunProgress } from './finish-step.js';
import { type FirstTexts, savedTexts } from './first-texts.js';
import {
  differingOption,
  givenOptions,
  type MonitorOptions,
  type RunOptions,
  reopenOptions,
} from './monitor-options.js';

const FORMAT = 'collapsar/monitor';
const VERSION = 1;

/** What `save()` gives and `Monitor.restore` takes: plain JSON. */
export interface MonitorState {
  readonly format: typeof FORMAT;
  readonly version: typeof VERSION;
  /** With which options the run was begun. */
  readonly options: RunOptions;
  /** The last finished step; null before the first. */
  readonly step: number | null;
  /** Moving averages of the collapse metrics. */
  readonly averages: RunningStateJson;
  readonly earlyStops: EarlyStopsJson;
  readonly judge: JudgeJson | null;
  /** Of the first step whose texts had figures, what its rows say. */
  readonly firstTexts: FirstTexts | null;
}

export function startRun(options: RunOptions): RunProgress {
  return {
    step: null,
    averages: new RunningState().toJSON(),
    earlyStops: EarlyStops.start(options.earlyStop),
    judge: options.judge === false ? null : new Judge(options.judge),
    firstTexts: null,
  };
}

/** A copy that later steps do not touch. */
export function saveRun(options: RunOptions, run: RunProgress): MonitorState {
  const state = { format: FORMAT, version: VERSION, options, ...run };
  return JSON.parse(JSON.stringify(state)) as MonitorState;
}

/**
 * @param given options of the caller, each of which must be the run's own
 * @throws {StateError} if `state` is foreign, damaged, of another version, or of a run with other options
 */
export function restoreRun(state: unknown, given: MonitorOptions): { options: RunOptions; run: RunProgress } {
  const found = typeof state === 'object' && state !== null ? (state as Partial<MonitorState>) : {};
  if (found.format !== FORMAT) {
    throw new StateError(
      `not a saved monitor: got ${shown(state)} with format ${shown(found.format)}, expected the object that save() gave ` +
        '(a JSON text must be parsed first)',
    );
  }
  if (found.version !== VERSION) {
    throw new StateError(
      `a monitor saved in version ${shown(found.version)} of the format; this release reads version ${VERSION}: restore it ` +
        'with the release that saved it, or start a new Monitor',
    );
  }
  const saved = new SavedFields(JSON.parse(JSON.stringify(state)), 'state');
  const options = runOptions(saved.value('options'));
  const differing = differingOption(givenOptions(given), options);
  if (differing !== undefined) {
    throw new StateError(
      `this run was begun with another option ${differing}: ${JSON.stringify(options[differing])}; leave the option out to ` +
        'continue with it, or start a new Monitor',
    );
  }
  const run: RunProgress = {
    step: saved.value('step') === null ? null : saved.count('step'),
    averages: RunningState.from(saved.value('averages')).toJSON(),
    earlyStops: EarlyStops.from(saved.fields('earlyStops'), options.earlyStop),
    judge: options.judge === false ? null : Judge.from(saved.value('judge')),
    firstTexts: savedTexts(saved.value('firstTexts')),
  };
  if (run.judge !== null && run.judge.toJSON().lastStep !== run.step) {
    throw new StateError('the saved monitor is damaged: its judge is of another step; start a new Monitor');
  }
  return { options, run };
}

/** Saved options are what resolveOptions() makes of themselves; anything else was not saved by it. */
function runOptions(saved: unknown): RunOptions {
  try {
    const options = reopenOptions(saved);
    if (isDeepStrictEqual(JSON.parse(JSON.stringify(options)), saved)) return options;
  } catch (error) {
    if (!(error instanceof ArgumentError)) throw error;
    throw new StateError(`the saved monitor is damaged: ${error.message}; start a new Monitor`, { cause: error });
  }
  throw new StateError('the saved monitor is damaged: its options are not complete; start a new Monitor');
}

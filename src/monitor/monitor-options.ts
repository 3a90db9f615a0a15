// The monitor's options with their defaults filled in, those of filter and judge as they came: plain JSON, so that a
// saved state can say what it was made with.

import { isDeepStrictEqual } from 'node:util';
import { checkArray } from '../checks/argument-checks.js';
import { ArgumentError } from '../checks/errors.js';
import { checkOptions, is, type OptionTable, optionsObject } from '../checks/options.js';
import { shown } from '../checks/words.js';
import type { Engine } from '../engine/engine.js';
import { THREADS } from '../engine/open-engine.js';
import {
  type FilterOptions,
  type FilterSettings,
  resolveFilterOptions,
  TURN_REWARDS,
  type TurnRewards,
} from '../filter/input/filter-options.js';
import { planScores } from '../metrics/sampled/plan.js';
import {
  SAMPLER_OPTIONS,
  type SamplerKind,
  type SamplerOptions,
  samplerOptions,
} from '../metrics/sampling/samplers.js';
import { PROFILE, type Profile } from '../metrics/step-metrics.js';
import { type BucketOptions, type ResolvedBuckets, resolveBuckets } from '../step/outcomes/reward-buckets.js';
import { type EarlyStopOptions, type ResolvedEarlyStop, resolveEarlyStop } from '../verdicts/early-stop/early-stops.js';
import { type JudgeOptions, type JudgeSettings, resolveJudgeOptions } from '../verdicts/judge-options.js';
import type { Sink } from './sinks/sink.js';

/** Options of a `Monitor` (docs/guide/monitor.md). */
export interface MonitorOptions {
  /** Where to compute. Default: an engine that is opened when it is first needed, and goes with `dispose()`. */
  readonly engine?: Engine | undefined;
  /** Threads of an engine that the monitor opens. Default: the engine's. */
  readonly threads?: number | undefined;
  /** `strict` (default), or `ragen`: the reference's numbers, key for key. */
  readonly profile?: Profile | undefined;
  /**
   * Which (trajectory, turn) rows a due step's metrics are computed on; needs `episodes` and `turns`. Several give a
   * set of metrics each. Every step draws again, by seed and step number. Default: all rows.
   */
  readonly sampler?: SamplerKind | SamplerOptions | readonly (SamplerKind | SamplerOptions)[] | undefined;
  /**
   * Cross-scores are due at every step until the run has its start to compare with (the first five steps with evidence;
   * not with `judge: false` or the `ragen` profile), at step 1, and at every multiple of this; `never`: only if a
   * step asks for it. Default 5.
   */
  readonly everySteps?: number | 'never' | undefined;
  /**
   * Score each row under its own prompt and under this number of others instead of under all: `strict` only, at least 3
   * (see `planScores`). Metrics are then estimates. Default: score everything.
   */
  readonly negatives?: number | undefined;
  /**
   * With `negatives`, where rows have turns: share of the negatives that are prompts of the row's own turn. Default
   * none. A step of several turns then takes `negatives` from 4 on: two of the own turn and two of others.
   */
  readonly hardShare?: number | undefined;
  /** The variance-based filter, applied at every step that brings rewards. Default: none. */
  readonly filter?: FilterOptions | undefined;
  /**
   * What the rewards of an episode's turns make the episode's, for filter, buckets and verdicts alike. `same`: they
   * must agree. Default: that of `filter`, whose default is `same` (under `ragen` `first`).
   */
  readonly turnRewards?: TurnRewards | undefined;
  /** Early-stop rules; each is on unless it is false. */
  readonly earlyStop?: EarlyStopOptions | false | undefined;
  /** Buckets of groups by reward std, with statistics. Default: none. */
  readonly buckets?: BucketOptions | false | undefined;
  /** Regimes and verdicts; false for none. */
  readonly judge?: JudgeOptions | false | undefined;
  /** Label permutations behind each p-value (strict); 0 for none. Default 999. */
  readonly permutations?: number | undefined;
  /** Seed of permutations, samplers and drawn negatives. Default 0. */
  readonly seed?: number | undefined;
  /**
   * Where each report goes besides (docs/guide/dashboards.md). `finish()` waits for none of them; one that fails is
   * warned of once (`process.emitWarning`). `dispose()` writes what waits, and closes them. Default: none.
   */
  readonly sinks?: readonly Sink[] | undefined;
  /** What sinks call this run. Default `run`. */
  readonly run?: string | undefined;
}

/** What a run's figures depend on: not where they are computed. */
export interface RunOptions {
  readonly profile: Profile;
  readonly samplers: readonly SamplerOptions[];
  readonly everySteps: number | 'never';
  readonly negatives: number | null;
  readonly hardShare: number | null;
  readonly filter: FilterOptions | null;
  readonly turnRewards: TurnRewards;
  readonly earlyStop: ResolvedEarlyStop;
  readonly buckets: ResolvedBuckets | false;
  readonly judge: JudgeOptions | false;
  readonly permutations: number;
  readonly seed: number;
}

const DEFAULT_EVERY_STEPS = 5;
const DEFAULT_PERMUTATIONS = 999;

const EVERY_STEPS = is.number('an integer from 1 on, or "never"', (steps) => Number.isSafeInteger(steps) && steps >= 1);

/** Options of a part (`is.any`) are checked by that part. */
const OPTIONS: OptionTable<MonitorOptions> = {
  engine: is.engine,
  threads: THREADS,
  profile: PROFILE,
  sampler: is.any,
  everySteps: (value, argument) => value === 'never' || EVERY_STEPS(value, argument),
  negatives: is.any,
  hardShare: is.any,
  filter: is.any,
  turnRewards: is.oneOf(TURN_REWARDS),
  earlyStop: is.any,
  buckets: is.any,
  judge: is.any,
  permutations: is.integer(0),
  seed: is.integer(0),
  sinks: checkSinks,
  run: is.text('a name', /./s),
};

/** @throws {ArgumentError} naming the option that is unknown, out of range or at odds with another */
export function resolveOptions(options: MonitorOptions): RunOptions {
  checkOptions(optionsObject(options, 'options'), OPTIONS);
  const {
    profile = 'strict',
    everySteps = DEFAULT_EVERY_STEPS,
    permutations = DEFAULT_PERMUTATIONS,
    seed = 0,
  } = options;
  const samplers = resolveSamplers(options.sampler, seed);
  const { negatives = null, hardShare = null } = options;
  checkNegatives(negatives, hardShare, profile, samplers);
  const filter = options.filter === undefined ? null : plainCopy(options.filter, 'options.filter');
  const turnRewards = resolveTurnRewards(options.turnRewards, filter);
  const judge = options.judge === false ? false : plainCopy(options.judge ?? {}, 'options.judge');
  if (judge !== false) judgeSettings(judge);
  return {
    profile,
    samplers,
    everySteps,
    negatives,
    hardShare,
    filter,
    turnRewards,
    earlyStop: resolveEarlyStop(options.earlyStop),
    buckets: resolveBuckets(options.buckets),
    judge,
    permutations,
    seed,
  };
}

/** The options of the run that a caller set, resolved: what a saved state must have been made with. */
export function givenOptions(options: MonitorOptions): Partial<RunOptions> {
  const resolved = resolveOptions(options);
  const { sampler, engine: _, threads: __, sinks: ___, run: ____, ...kept } = options;
  const given = { ...kept, samplers: sampler };
  const names = (Object.keys(given) as (keyof typeof given)[]).filter((name) => given[name] !== undefined);
  return Object.fromEntries(names.map((name) => [name, resolved[name]]));
}

/** The options that a state was saved with, checked as those of a caller. @throws {ArgumentError} */
export function reopenOptions(saved: unknown): RunOptions {
  const run = optionsObject(saved, 'options') as unknown as RunOptions;
  const { samplers, negatives, hardShare, filter, ...others } = run;
  return resolveOptions({
    ...others,
    sampler: samplers,
    negatives: negatives ?? undefined,
    hardShare: hardShare ?? undefined,
    filter: filter ?? undefined,
  });
}

/** One reading of turns for all that looks at rewards. */
function resolveTurnRewards(given: TurnRewards | undefined, filter: FilterOptions | null): TurnRewards {
  const settings = filter === null ? undefined : filterSettings(filter);
  if (given === undefined) return settings?.turnRewards ?? 'same';
  if (filter?.turnRewards === undefined || filter.turnRewards === given) return given;
  const problem = `got "${given}", but options.filter.turnRewards says "${filter.turnRewards}": give it once`;
  throw new ArgumentError('options.turnRewards', problem);
}

function resolveSamplers(given: MonitorOptions['sampler'], seed: number): SamplerOptions[] {
  if (given === undefined) return [];
  const several = Array.isArray(given);
  const list = (several ? given : [given]) as readonly (SamplerKind | SamplerOptions)[];
  const samplers = list.map((entry, at): SamplerOptions => {
    const argument = several ? `options.sampler[${at}]` : 'options.sampler';
    const sampler = samplerOptions(entry);
    checkOptions(optionsObject(sampler, argument), SAMPLER_OPTIONS, argument);
    const { kind, n, seed: own = seed } = sampler;
    return { kind, ...(n !== undefined && { n }), seed: own };
  });
  const kinds = samplers.map(({ kind }) => kind);
  const twice = kinds.find((kind, at) => kinds.indexOf(kind) !== at);
  if (twice !== undefined) {
    throw new ArgumentError('options.sampler', `"${twice}" is there twice: their metrics would have the same keys`);
  }
  return samplers;
}

function checkNegatives(
  negatives: number | null,
  hardShare: number | null,
  profile: Profile,
  samplers: readonly SamplerOptions[],
): void {
  const argument = 'options.negatives';
  if (negatives === null) {
    if (hardShare !== null) throw new ArgumentError('options.hardShare', `needs ${argument}`);
    return;
  }
  if (profile === 'ragen') {
    throw new ArgumentError(
      argument,
      'the ragen profile knows no estimates from few prompts; use strict, or leave it out',
    );
  }
  if (samplers.length > 0) {
    throw new ArgumentError(argument, 'cannot be combined with a sampler: one of the two says which pairs to score');
  }
  // What a plan may be is the plan's own to say; it names both options as they are named here.
  const input = { groups: [0, 1], lengths: [1, 1], ...(hardShare !== null && { promptTurns: [0, 0] }) };
  planScores(input, { negatives, hardShare: hardShare ?? undefined });
}

function checkSinks(value: unknown, argument: string): void {
  checkArray(value, argument);
  for (const [at, sink] of Array.from(value as ArrayLike<Partial<Sink> | undefined>).entries()) {
    if (typeof sink?.step === 'function' && typeof sink.close === 'function') continue;
    throw new ArgumentError(`${argument}[${at}]`, `got ${shown(sink)}, expected a sink: openSink(…) gives one`);
  }
}

/** Options of another room as plain JSON. @throws {ArgumentError} if they hold what JSON does not */
function plainCopy<Options extends object>(options: Options, argument: string): Options {
  optionsObject(options, argument);
  return JSON.parse(
    JSON.stringify(options, (name, value: unknown) => {
      if (
        typeof value === 'function' ||
        typeof value === 'bigint' ||
        (typeof value === 'number' && !Number.isFinite(value))
      ) {
        throw new ArgumentError(`${argument}.${name}`, `got ${shown(value)}, expected what JSON can hold`);
      }
      return value;
    }),
  ) as Options;
}

const filterSettings = (filter: FilterOptions): FilterSettings => resolveFilterOptions(filter, 'options.filter');

const judgeSettings = (judge: JudgeOptions): JudgeSettings => resolveJudgeOptions(judge, 'options.judge');

/** The first option in which `given` differs from what a run was made with; undefined if none does. */
export function differingOption(given: Partial<RunOptions>, run: RunOptions): keyof RunOptions | undefined {
  return (Object.keys(given) as (keyof RunOptions)[]).find((name) => {
    if (name === 'filter' && given.filter && run.filter) {
      return !isDeepStrictEqual(filterSettings(given.filter), filterSettings(run.filter));
    }
    if (name === 'judge' && given.judge && run.judge) {
      return !isDeepStrictEqual(judgeSettings(given.judge), judgeSettings(run.judge));
    }
    return !isDeepStrictEqual(given[name], run[name]);
  });
}

// Checks the options of filterGroups, and sets their defaults by dialect.

import { ArgumentError } from '../../checks/errors.js';
import { checkOptions, is, type OptionTable } from '../../checks/options.js';
import { shown } from '../../checks/words.js';

/** Whose rules decide. docs/reference/filter.md has the formula of each. */
export type FilterDialect = 'strict' | 'ragen' | 'paper' | 'upstream' | 'dapo';

/**
 * top_p: a share of the mass; top_k: a share of the groups; top_k_abs: a number of groups; min_p: a share of the best
 * score.
 */
export type FilterStrategy = 'top_p' | 'top_k' | 'top_k_abs' | 'min_p';

/** What the score of a group is made of. */
export type FilterMetric = 'reward_variance' | 'reward' | 'reward_sum' | 'entropy' | 'entropy_variance' | 'length';

/** Which end of the scores is kept. */
export type FilterDirection = 'largest' | 'smallest';

/** What becomes of a group of one rollout where the metric is a spread, which one rollout does not have. */
export type SingletonPolicy = 'drop' | 'keep' | 'error';

/** What the loss is multiplied with; ρ is the share asked for, the kept ratio the share of groups that came out. */
export type LossScaling = 'none' | 'linear' | 'sqrt' | 'rho';

/** What the rewards of an episode's turns make the episode's. `same`: they must agree. */
export type TurnRewards = 'same' | 'first' | 'last' | 'sum' | 'mean';

/** Options of `filterGroups`; defaults depend on the dialect (docs/reference/filter.md). */
export interface FilterOptions {
  /** Default `strict`. */
  dialect?: FilterDialect | undefined;
  /** Default `top_p`. `dapo` ranks nothing and does not use it. */
  strategy?: FilterStrategy | undefined;
  /**
   * top_p, top_k: a share in (0, 1]. top_k_abs, and `top_k` of the `upstream` dialect: a number of groups, at least 1.
   * min_p: a share in [0, 1]. Default 0.9 for top_p, 1 for `top_k` of `upstream`; the others have none.
   */
  value?: number | undefined;
  /** Default `reward_variance`. */
  metric?: FilterMetric | undefined;
  /** Default `largest`. */
  direction?: FilterDirection | undefined;
  /**
   * Whether groups with a score of zero may be kept. Default: true under `ragen` and for metrics other than variances,
   * else false.
   */
  includeZero?: boolean | undefined;
  /** How top_p makes masses of scores. Default `linear`. */
  topPMode?: 'linear' | 'softmax' | undefined;
  /**
   * Slack of top_p's threshold. `ragen`, `upstream`: absolute, in units of the score, default 0.01. `paper`: the same,
   * default
   * 0. `strict`: as a share of the whole mass, default 1e-9, so that it does not depend on the scale of rewards.
   */
  eps?: number | undefined;
  /** Default `drop`; `upstream` without it counts a singleton as a group of variance 0. */
  singletons?: SingletonPolicy | undefined;
  /** Default `none`; `paper`: `rho`. */
  lossScale?: LossScaling | undefined;
  /** Default `same`; `ragen`: `first`. Matters only if rows have episodes. */
  turnRewards?: TurnRewards | undefined;
  /**
   * A reward that is NaN or infinite: an ArgumentError, or the rollout is left out, with a warning. Default `error`.
   */
  nonFinite?: 'error' | 'exclude' | undefined;
  /** Only `upstream` (its `variance_ddof`): delta degrees of freedom of the variance, default 1. */
  ddof?: number | undefined;
}

/** FilterOptions with every default in place. */
export interface FilterSettings {
  readonly dialect: FilterDialect;
  readonly strategy: FilterStrategy;
  readonly value: number;
  readonly metric: FilterMetric;
  readonly direction: FilterDirection;
  readonly includeZero: boolean;
  readonly topPMode: 'linear' | 'softmax';
  readonly eps: number;
  /** `zero`: the variance of a singleton is taken to be 0. */
  readonly singletons: SingletonPolicy | 'zero';
  readonly lossScale: LossScaling;
  readonly turnRewards: TurnRewards;
  readonly nonFinite: 'error' | 'exclude';
  readonly ddof: number;
}

export const DIALECTS: readonly FilterDialect[] = ['strict', 'ragen', 'paper', 'upstream', 'dapo'];
export const STRATEGIES: readonly FilterStrategy[] = ['top_p', 'top_k', 'top_k_abs', 'min_p'];
export const METRICS: readonly FilterMetric[] = [
  'reward_variance',
  'reward',
  'reward_sum',
  'entropy',
  'entropy_variance',
  'length',
];
export const DIRECTIONS: readonly FilterDirection[] = ['largest', 'smallest'];
export const SINGLETON_POLICIES: readonly SingletonPolicy[] = ['drop', 'keep', 'error'];
export const LOSS_SCALINGS: readonly LossScaling[] = ['none', 'linear', 'sqrt', 'rho'];
export const TURN_REWARDS: readonly TurnRewards[] = ['same', 'first', 'last', 'sum', 'mean'];
export const TOP_P_MODES: readonly ('linear' | 'softmax')[] = ['linear', 'softmax'];

const OPTIONS: OptionTable<FilterOptions> = {
  dialect: is.oneOf(DIALECTS),
  strategy: is.oneOf(STRATEGIES),
  value: is.any,
  metric: is.oneOf(METRICS),
  direction: is.oneOf(DIRECTIONS),
  includeZero: is.flag,
  topPMode: is.oneOf(TOP_P_MODES),
  eps: is.number('a finite number from 0 on', (eps) => eps >= 0 && eps < Number.POSITIVE_INFINITY),
  singletons: is.oneOf(SINGLETON_POLICIES),
  lossScale: is.oneOf(LOSS_SCALINGS),
  turnRewards: is.oneOf(TURN_REWARDS),
  nonFinite: is.oneOf(['error', 'exclude']),
  ddof: is.integer(0),
};

/** Names of the options. */
export const FILTER_OPTIONS = Object.keys(OPTIONS);

const DEFAULT_TOP_P = 0.9;
const UPSTREAM_TOP_K = 1;
const REFERENCE_EPS = 0.01;
/** Rounding of sums stays below this share of them. */
const STRICT_EPS = 1e-9;

/** Columns that groups can be ranked by. */
export type MetricColumn = 'rewards' | 'entropies' | 'lengths';

/** The column that a metric reads. */
export function columnOf(metric: FilterMetric): MetricColumn {
  if (metric === 'length') return 'lengths';
  return metric.startsWith('entropy') ? 'entropies' : 'rewards';
}

/** Whether the score is a spread within the group, so that a constant group scores zero. */
export function isSpread(metric: FilterMetric): boolean {
  return metric === 'reward_variance' || metric === 'entropy_variance';
}

/**
 * Checks options and fills in the defaults of their dialect.
 * @param argument where the caller gave them
 * @throws ArgumentError naming the option, what came and what is expected
 */
export function resolveFilterOptions(options: FilterOptions = {}, argument = 'options'): FilterSettings {
  checkOptions(options, OPTIONS, argument);
  const {
    dialect = 'strict',
    strategy = 'top_p',
    metric = 'reward_variance',
    direction = 'largest',
    topPMode = 'linear',
    ddof = 1,
  } = options;
  if (dialect === 'upstream') refuseUnknownToUpstream(argument, strategy, metric, direction, topPMode);
  if (ddof !== 1 && dialect !== 'upstream') {
    throw new ArgumentError(`${argument}.ddof`, `${ddof}, but only the dialect "upstream" has it; leave it out`);
  }
  return {
    dialect,
    strategy,
    value: checkedValue(`${argument}.value`, options.value, dialect, strategy),
    metric,
    direction,
    includeZero: options.includeZero ?? (dialect === 'ragen' || !isSpread(metric)),
    topPMode,
    eps: options.eps ?? defaultEps(dialect),
    singletons: options.singletons ?? (dialect === 'upstream' ? 'zero' : 'drop'),
    lossScale: options.lossScale ?? (dialect === 'paper' ? 'rho' : 'none'),
    turnRewards: options.turnRewards ?? (dialect === 'ragen' ? 'first' : 'same'),
    nonFinite: options.nonFinite ?? 'error',
    ddof,
  };
}

function defaultEps(dialect: FilterDialect): number {
  if (dialect === 'ragen' || dialect === 'upstream') return REFERENCE_EPS;
  return dialect === 'paper' ? 0 : STRICT_EPS;
}

function checkedValue(
  argument: string,
  value: number | undefined,
  dialect: FilterDialect,
  strategy: FilterStrategy,
): number {
  if (value === undefined) {
    if (strategy === 'top_p' || dialect === 'dapo') return DEFAULT_TOP_P;
    if (dialect === 'upstream' && strategy === 'top_k') return UPSTREAM_TOP_K;
    throw new ArgumentError(argument, `missing: ${expectedValue(dialect, strategy)}`);
  }
  if (typeof value !== 'number' || !Number.isFinite(value) || !isInRange(value, dialect, strategy)) {
    throw new ArgumentError(argument, `${shown(value)}: ${expectedValue(dialect, strategy)}`);
  }
  return value;
}

function countsGroups(dialect: FilterDialect, strategy: FilterStrategy): boolean {
  return strategy === 'top_k_abs' || (dialect === 'upstream' && strategy === 'top_k');
}

function isInRange(value: number, dialect: FilterDialect, strategy: FilterStrategy): boolean {
  // The reference takes any of these: a share from 1 on keeps all, a count below 1 keeps one
  // (docs/reference/filter.md).
  if (dialect === 'ragen') return value >= 0;
  if (dialect === 'dapo') return value >= 0;
  if (countsGroups(dialect, strategy)) return value >= 1 && Number.isSafeInteger(value);
  return strategy === 'min_p' ? value >= 0 && value <= 1 : value > 0 && value <= 1;
}

function expectedValue(dialect: FilterDialect, strategy: FilterStrategy): string {
  if (dialect === 'ragen' || dialect === 'dapo') return `${strategy} needs a finite number from 0 on`;
  if (countsGroups(dialect, strategy)) {
    return `${strategy}${dialect === 'upstream' ? ' of the dialect "upstream"' : ''} needs a whole number of groups from 1 on`;
  }
  if (strategy === 'min_p') return 'min_p needs a share of the best score, from 0 to 1';
  const what = strategy === 'top_p' ? 'the mass' : 'the groups';
  return `${strategy} needs a share of ${what}, above 0 and at most 1${strategy === 'top_k' ? '; for a number of groups use top_k_abs' : ''}`;
}

/** reward_variance_filtering has top_p and top_k over the largest variances, nothing else. */
function refuseUnknownToUpstream(
  argument: string,
  strategy: FilterStrategy,
  metric: FilterMetric,
  direction: FilterDirection,
  topPMode: string,
): void {
  const refuse = (option: string, came: string, expected: string): never => {
    throw new ArgumentError(
      `${argument}.${option}`,
      `"${came}", which the dialect "upstream" does not have: use ${expected}, or another dialect`,
    );
  };
  if (strategy === 'min_p') refuse('strategy', strategy, 'top_p or top_k');
  if (metric !== 'reward_variance') refuse('metric', metric, 'reward_variance');
  if (direction !== 'largest') refuse('direction', direction, 'largest');
  if (topPMode !== 'linear') refuse('topPMode', topPMode, 'linear');
}

/**
 * What the loss is multiplied with when part of the batch was dropped. none: 1. linear, sqrt: of the kept ratio (the
 * reference's filter_loss_scaling). rho: the share that was asked for, `value` of top_p and top_k (the paper's ρ);
 * strategies without such a share take the kept ratio.
 * @returns 0 if nothing was kept and anything but `none` is asked for
 */
export function lossScale(kept: number, groups: number, settings: FilterSettings): number {
  const { lossScale: rule, strategy, value, dialect } = settings;
  if (rule === 'none') return 1;
  if (kept === 0) return 0;
  const ratio = kept / groups;
  if (rule === 'linear') return ratio;
  if (rule === 'sqrt') return Math.sqrt(ratio);
  const asksForShare = strategy === 'top_p' || (strategy === 'top_k' && dialect !== 'upstream');
  return asksForShare && dialect !== 'dapo' ? Math.min(1, value) : ratio;
}

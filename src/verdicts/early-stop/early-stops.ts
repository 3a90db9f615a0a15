// The early-stop rules of a run, together: which are on, what each has seen, and what they say after a step.
import { checkOptions, is, type Kind, type OptionTable, optionsObject } from '../../checks/options.js';
import { fields, nothing, type Shape } from '../../checks/saved.js';
import {
  EMPTY_FILTER_DEFAULTS,
  EmptyFilterStop,
  type EmptyFilterStopJson,
  type EmptyFilterStopOptions,
  emptyFilterStopShape,
} from './empty-filter-stop.js';
import {
  REWARD_VARIANCE_DEFAULTS,
  RewardVarianceStop,
  type RewardVarianceStopJson,
  type RewardVarianceStopOptions,
  rewardVarianceStopShape,
} from './reward-variance-stop.js';
import type { Stop } from './stop.js';
import {
  SUCCESS_DEFAULTS,
  SuccessStop,
  type SuccessStopJson,
  type SuccessStopOptions,
  successStopShape,
} from './success-stop.js';

/** Each rule is on by default; false turns it off. */
export interface EarlyStopOptions {
  readonly rewardVariance?: Partial<RewardVarianceStopOptions> | false | undefined;
  readonly success?: Partial<SuccessStopOptions> | false | undefined;
  readonly emptyFilter?: Partial<EmptyFilterStopOptions> | false | undefined;
}

/** Every option has its value. */
export interface ResolvedEarlyStop {
  readonly rewardVariance: RewardVarianceStopOptions | false;
  readonly success: SuccessStopOptions | false;
  readonly emptyFilter: EmptyFilterStopOptions | false;
}

/** @throws {ArgumentError} naming the option that is out of range or not known */
export function resolveEarlyStop(options: EarlyStopOptions | false | undefined): ResolvedEarlyStop {
  if (options === false) return { rewardVariance: false, success: false, emptyFilter: false };
  const argument = 'options.earlyStop';
  checkOptions(options ?? {}, OPTIONS, argument);
  return {
    rewardVariance: resolveRule(options?.rewardVariance, REWARD_VARIANCE_DEFAULTS),
    success: resolveRule(options?.success, SUCCESS_DEFAULTS),
    emptyFilter: resolveRule(options?.emptyFilter, EMPTY_FILTER_DEFAULTS),
  };
}

const OPTIONS: OptionTable<EarlyStopOptions> = {
  rewardVariance: rule<RewardVarianceStopOptions>({
    below: is.fraction,
    startSteps: is.integer(1),
    consecutive: is.integer(1),
  }),
  success: rule<SuccessStopOptions>({ below: is.fraction, validations: is.integer(1) }),
  emptyFilter: rule<EmptyFilterStopOptions>({ steps: is.integer(1) }),
};

/** The options of a rule, or false. */
function rule<Options extends object>(table: OptionTable<Options>): Kind {
  return (value, argument) => {
    if (value !== false) checkOptions(optionsObject(value, argument), table, argument);
  };
}

function resolveRule<Options extends object>(
  given: Partial<Options> | false | undefined,
  defaults: Options,
): Options | false {
  if (given === false) return false;
  const set = Object.entries(given ?? {}).filter(([, value]) => value !== undefined);
  return { ...defaults, ...Object.fromEntries(set) };
}

/** What one step shows to the rules; what it does not show leaves them as they are. */
export interface StopEvidence {
  /** Mean over groups of the in-group reward std. */
  readonly meanRewardStd?: number | undefined;
  /** Whether the filter kept nothing; undefined without a filter. */
  readonly filterEmpty?: boolean | undefined;
  /** Validation success rates by task. */
  readonly success?: Readonly<Record<string, number>> | undefined;
}

export interface EarlyStopsJson {
  readonly rewardVariance: RewardVarianceStopJson | null;
  readonly success: SuccessStopJson | null;
  readonly emptyFilter: EmptyFilterStopJson | null;
}

/** What these options save: null for a rule that is off. */
export function earlyStopsShape({ rewardVariance, success, emptyFilter }: ResolvedEarlyStop): Shape<EarlyStopsJson> {
  return fields({
    rewardVariance: rewardVariance ? rewardVarianceStopShape(rewardVariance) : nothing,
    success: success ? successStopShape : nothing,
    emptyFilter: emptyFilter ? emptyFilterStopShape : nothing,
  });
}

interface Rules {
  readonly rewardVariance: RewardVarianceStop | undefined;
  readonly success: SuccessStop | undefined;
  readonly emptyFilter: EmptyFilterStop | undefined;
}

export class EarlyStops {
  readonly #rules: Rules;

  private constructor(rules: Rules) {
    this.#rules = rules;
  }

  /** @param saved state of a run that is resumed */
  static start({ rewardVariance, success, emptyFilter }: ResolvedEarlyStop, saved?: EarlyStopsJson): EarlyStops {
    return new EarlyStops({
      rewardVariance: rewardVariance
        ? new RewardVarianceStop(rewardVariance, saved?.rewardVariance ?? undefined)
        : undefined,
      success: success ? new SuccessStop(success, Object.entries(saved?.success ?? {})) : undefined,
      emptyFilter: emptyFilter ? new EmptyFilterStop(emptyFilter, saved?.emptyFilter ?? undefined) : undefined,
    });
  }

  after(step: number, { meanRewardStd, filterEmpty, success }: StopEvidence): EarlyStops {
    const rules = this.#rules;
    // Where the filter leaves nothing, the step is not a kept one: it neither counts as low nor breaks the count.
    const kept = meanRewardStd !== undefined && filterEmpty !== true;
    return new EarlyStops({
      rewardVariance: kept ? rules.rewardVariance?.after(step, meanRewardStd) : rules.rewardVariance,
      success: success === undefined ? rules.success : rules.success?.after(step, success),
      emptyFilter: filterEmpty === undefined ? rules.emptyFilter : rules.emptyFilter?.after(step, filterEmpty),
    });
  }

  /** One stop for every rule whose condition holds now. */
  get stops(): Stop[] {
    const { rewardVariance, success, emptyFilter } = this.#rules;
    return [emptyFilter?.stop, rewardVariance?.stop, success?.stop].filter((stop) => stop !== undefined);
  }

  /** Steps in a row without a group left by the filter; undefined if that rule is off. */
  get consecutiveEmpty(): number | undefined {
    return this.#rules.emptyFilter?.consecutive;
  }

  toJSON(): EarlyStopsJson {
    const { rewardVariance, success, emptyFilter } = this.#rules;
    return {
      rewardVariance: rewardVariance?.toJSON() ?? null,
      success: success?.toJSON() ?? null,
      emptyFilter: emptyFilter?.toJSON() ?? null,
    };
  }
}

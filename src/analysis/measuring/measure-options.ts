// Options on which every measurement of an analysis depends, besides the step itself.
import { is, type OptionTable } from '../../checks/options.js';
import { TURN_REWARDS, type TurnRewards } from '../../filter/input/filter-options.js';
import { LOG_OPTIONS, type LogOptions, onlyEnvironment } from '../../logs/rollouts/log-options.js';
import { PROFILE, type Profile } from '../../metrics/step-metrics.js';

/** What a measurement depends on, beside the file. */
export interface MeasureOptions extends Readonly<LogOptions> {
  readonly profile: Profile;
  readonly permutations?: number | undefined;
  readonly seed: number;
  /** Draws of the trajectory and turn samplers, in files with `episode` and `turn`. */
  readonly samples: number;
  readonly nonFinite: 'error' | 'exclude';
  readonly placeholders: 'error' | 'exclude';
  /** What the rewards of an episode's turns make the episode's. */
  readonly turnRewards: TurnRewards;
}

/** The reference's number of draws (docs/reference/metrics.md). */
const DEFAULT_SAMPLES = 64;

/** What becomes of a row that cannot be used. */
const POLICY = is.oneOf(['error', 'exclude']);

export const MEASURE_OPTIONS: OptionTable<MeasureOptions> = {
  profile: PROFILE,
  permutations: is.integer(0),
  seed: is.integer(0),
  samples: is.integer(1),
  nonFinite: POLICY,
  placeholders: POLICY,
  turnRewards: is.oneOf(TURN_REWARDS),
  ...LOG_OPTIONS,
};

export function measureOptions(given: { [K in keyof MeasureOptions]?: MeasureOptions[K] | undefined }): MeasureOptions {
  const {
    profile = 'strict',
    permutations,
    seed = 0,
    samples = DEFAULT_SAMPLES,
    nonFinite = 'error',
    placeholders = 'exclude',
  } = given;
  const { turnRewards = 'same', format, columns, reasoning, tagTokens, groupSize, rewardColumns } = given;
  const logs = { format, columns, reasoning, tagTokens, groupSize, rewardColumns };
  return { profile, permutations, seed, samples, nonFinite, placeholders, turnRewards, ...logs };
}

/** Whether rollout logs are looked for: `ragen` gives the reference's numbers and nothing else. */
export function hasTexts({ profile }: MeasureOptions): boolean {
  return profile === 'strict';
}

/** Whether the user says what reads the logs. */
export function isForced({ format, columns }: MeasureOptions): boolean {
  return format !== undefined || (columns !== undefined && !onlyEnvironment(columns));
}

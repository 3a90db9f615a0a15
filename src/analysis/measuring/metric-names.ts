// A profile -> every key that an analysis under it can log: what can be chosen is known before anything is read.
import { filterGroups } from '../../filter/filter-groups.js';
import { WITHIN_KEYS, WITHIN_TEXT_KEY } from '../../metrics/environments/environment-figures.js';
import { batchKeys, CERTAINTY_KEYS } from '../../metrics/figures/certainty.js';
import { RAGEN_KEYS } from '../../metrics/figures/ragen.js';
import { STRICT_KEYS } from '../../metrics/figures/strict.js';
import { ALL_AMONG_ERROR_KEYS, ALL_AMONG_KEYS } from '../../metrics/figures/subset-figures.js';
import type { Profile, SampleLabel } from '../../metrics/step-metrics.js';
import { TEXT_KEYS, TEXT_PREFIX } from '../../metrics/text-metrics.js';
import { EMPTY_FILTER_KEYS } from '../../step/run.js';
import { RECORD_PARTS } from '../../step/step-record.js';

const SAMPLES: readonly SampleLabel[] = [
  'collapse_first_turn_sample',
  'collapse_trajectory_sample',
  'collapse_turn_sample',
];

const ABOUT_SAMPLE = ['sample_size', 'sample_effective_size', 'sample_prompts'] as const;

const ABOUT_ROWS = [
  'collapse/valid_thinking_rate',
  'collapse/first_turn_num_total',
  'collapse/first_turn_num_valid',
  'collapse/first_turn_valid_rate',
] as const;

const STRICT_STEP_KEYS = [
  ...STRICT_KEYS,
  ...ALL_AMONG_KEYS,
  ...ALL_AMONG_ERROR_KEYS,
  ...CERTAINTY_KEYS,
  ...['mi_seq_margin', ...ALL_AMONG_KEYS].flatMap(batchKeys),
  ...ABOUT_SAMPLE,
  ...WITHIN_KEYS,
];

/**
 * Logged keys, and the names of the other parts of a record. A step has some of them, and of each of several environments
 * the same under `environment/<name>/`.
 */
export function possibleKeys(profile: Profile): string[] {
  const isStrict = profile === 'strict';
  const keys = isStrict ? STRICT_STEP_KEYS : RAGEN_KEYS;
  const ofSamples = SAMPLES.flatMap((label) => keys.map((key) => `${label}/${key}`));
  const ofTexts = [...TEXT_KEYS, WITHIN_TEXT_KEY].map((key) => TEXT_PREFIX + key);
  return [
    ...ABOUT_ROWS,
    ...ofSamples,
    ...(isStrict ? [...ofTexts, ...filterKeys(), ...EMPTY_FILTER_KEYS, ...RECORD_PARTS] : []),
  ];
}

/** What the filter says of two groups, with outcomes and rewards that vary, it can say of any step. */
function filterKeys(): string[] {
  const rewards = { values: [0, 1, 0, 1], groups: [0, 0, 1, 1] };
  return Object.keys(filterGroups({ rewards, outcomes: [0, 1, 0, 1] }).metrics);
}

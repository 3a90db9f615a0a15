// Lists every key that an analysis under a profile can log, so that choices are checked before anything is read.
import { filterGroups } from '../../filter/filter-groups.js';
import { metricsOnce } from '../../filter/filter-metrics.js';
import { ROW_FIGURES, SAMPLE_FIGURES, WITHIN_FIGURES } from '../../metrics/figures/beside-figures.js';
import { possibleFigures } from '../../metrics/figures/step-figures.js';
import { ALL_TEXT_FIGURES } from '../../metrics/reporting/explanations.js';
import type { Profile, SampleLabel } from '../../metrics/step-metrics.js';
import { TEXT_PREFIX } from '../../metrics/text-metrics.js';
import { EMPTY_FILTER_KEYS } from '../../step/run.js';
import { RECORD_PARTS } from '../../step/step-record.js';

const SAMPLES: readonly SampleLabel[] = [
  'collapse_first_turn_sample',
  'collapse_trajectory_sample',
  'collapse_turn_sample',
];

/**
 * Logged keys, and the names of the other parts of a record. A step has some of them, and of each of several environments
 * the same under `environment/<name>/`.
 */
export function possibleKeys(profile: Profile): string[] {
  const isStrict = profile === 'strict';
  const beside = isStrict ? [...SAMPLE_FIGURES, ...WITHIN_FIGURES].map(({ key }) => key) : [];
  const keys = [...possibleFigures(profile), ...beside];
  const ofSamples = SAMPLES.flatMap((label) => keys.map((key) => `${label}/${key}`));
  const ofTexts = ALL_TEXT_FIGURES.map(({ key }) => TEXT_PREFIX + key);
  return [
    ...ROW_FIGURES.map(({ key }) => key),
    ...ofSamples,
    ...(isStrict ? [...ofTexts, ...filterKeys(), ...EMPTY_FILTER_KEYS, ...RECORD_PARTS] : []),
  ];
}

/** What the filter says of two groups, with outcomes and rewards that vary, it can say of any step. */
function filterKeys(): string[] {
  const rewards = { values: [0, 1, 0, 1], groups: [0, 0, 1, 1] };
  return Object.keys(metricsOnce(filterGroups({ rewards, outcomes: [0, 1, 0, 1] }).metrics));
}

// Figures that go to a sink unless all are requested: the few that a page about the run shows.
import { ROW_FIGURES } from '../metrics/figures/beside-figures.js';
import type { NamedFigure } from '../metrics/figures/figure.js';
import { ALL_SCORE_FIGURES, ALL_TEXT_FIGURES } from '../metrics/reporting/explanations.js';
import { sinkKeys } from '../metrics/reporting/shown-figures.js';
import type { StepReport } from '../step/step-report.js';

/** Labels of samples, as logged keys begin with them; the one that the judge reads first comes first. */
export const SAMPLES = {
  collapse_first_turn_sample: 'first_turn',
  collapse_trajectory_sample: 'trajectory',
  collapse_turn_sample: 'turn',
  text: 'text',
} as const;
export type SampleLabel = keyof typeof SAMPLES;

/** Of a step as a whole, besides those about its rows. */
const OF_STEP = [
  'rollout/in_group_reward_mean',
  'rollout/in_group_reward_std',
  'rollout/filter_kept_ratio',
  'rollout/filter_gate',
  'val-env/success',
];

/** Figures of a sample, by its label. */
export const figuresOf = (label: string): readonly NamedFigure[] =>
  label === 'text' ? ALL_TEXT_FIGURES : ALL_SCORE_FIGURES;

export const PAGE_KEYS: ReadonlySet<string> = new Set([
  ...Object.keys(SAMPLES).flatMap((label) => sinkKeys(figuresOf(label)).map((key) => `${label}/${key}`)),
  ...sinkKeys(ROW_FIGURES),
  ...OF_STEP,
]);

/** `page`: the few; `all`: every figure that the step has. */
export type SinkMetrics = 'page' | 'all';

/** The finite figures that are wanted, by logged key: nobody's curve has a place for NaN. */
export function chosenFigures(
  { metrics, certainty }: Pick<StepReport, 'metrics' | 'certainty'>,
  which: SinkMetrics,
): [key: string, value: number][] {
  return Object.entries({ ...metrics, ...certainty }).filter(
    ([key, value]) => Number.isFinite(value) && (which === 'all' || PAGE_KEYS.has(key)),
  );
}

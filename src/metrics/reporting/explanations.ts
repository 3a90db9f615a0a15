// Explains each metric of a step for `collapsar explain`: what it is, how it is computed and how to read it.
import { FIGURE_FORMS, PAIR_FIGURES, ROW_FIGURES, SAMPLE_FIGURES, WITHIN_FIGURES } from '../figures/beside-figures.js';
import type { FigureWords, NamedFigure } from '../figures/figure.js';
import { SCORE_FIGURES } from '../figures/score-figures.js';
import { TEXT_FIGURES, WITHIN_TEXT_FIGURE } from '../figures/text-entries.js';

export interface MetricExplanation extends FigureWords {
  /** Names without the sample's label; `@k` stands for @2, @4 and @8. */
  readonly keys: readonly string[];
}

/** Under the label of a sample. */
export const ALL_SCORE_FIGURES: readonly NamedFigure[] = [
  ...SCORE_FIGURES,
  ...WITHIN_FIGURES,
  ...SAMPLE_FIGURES,
  ...PAIR_FIGURES,
];

/** Under `text/`. */
export const ALL_TEXT_FIGURES: readonly NamedFigure[] = [...TEXT_FIGURES, WITHIN_TEXT_FIGURE];

export const METRIC_EXPLANATIONS = explanationsOf([...ALL_SCORE_FIGURES, ...ROW_FIGURES, ...FIGURE_FORMS]);

/** Of the figures that only texts have. */
export const TEXT_EXPLANATIONS = explanationsOf(
  ALL_TEXT_FIGURES.filter(({ words }) => SCORE_FIGURES.every((entry) => entry.words !== words)),
);

/** Figures with the same words are explained together, at the first of them. */
function explanationsOf(figures: readonly NamedFigure[]): MetricExplanation[] {
  const keys = new Map<FigureWords, Set<string>>();
  for (const { key, words } of figures) keys.set(words, (keys.get(words) ?? new Set()).add(key.replace(/@\d+$/, '@k')));
  return [...keys].map(([words, named]) => ({ keys: [...named], ...words }));
}

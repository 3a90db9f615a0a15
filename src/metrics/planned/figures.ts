// Which figures are estimated from a plan's rows with an interval: those that are means over rows of a value per row.

/** Entropies are −marginal. */
export const PLANNED_FIGURES = ['miSeq', 'miSeqLoo', 'miPerToken', 'miToken', 'entropySeq', 'entropyToken'] as const;
export type PlannedFigure = (typeof PLANNED_FIGURES)[number];
export type EachFigure<T> = Record<PlannedFigure, T>;

export function eachFigure<T>(make: (figure: PlannedFigure) => T): EachFigure<T> {
  return Object.fromEntries(PLANNED_FIGURES.map((figure) => [figure, make(figure)])) as EachFigure<T>;
}

/** Figures per token: rows of one prompt differ by their lengths, which the rows of other prompts know nothing of. */
export function variesByLength(figure: PlannedFigure): boolean {
  return figure === 'miPerToken' || figure === 'miToken';
}

// Rows that `strict` makes no figure of, and the message if no other is left.

/** Indices of rows of the step, ascending. */
export interface RowsLeftOut {
  readonly nonFinite: readonly number[];
  readonly placeholders: readonly number[];
}

export const NONE_LEFT_OUT: RowsLeftOut = { nonFinite: [], placeholders: [] };

export function noRowLeft({ nonFinite, placeholders }: RowsLeftOut): string {
  const invalid = 'every row has a score that is NaN or infinite';
  if (placeholders.length === 0) return invalid;
  const alike = 'the same score under every prompt, which no log-probs are: placeholders of what computes them?';
  return nonFinite.length === 0 ? `every row has ${alike}` : `${invalid}, or ${alike}`;
}

// Decides whether MI is as large as a step's rows and columns can show: then the true value may be larger.

/** From this share of what it would be at most, MI is called saturated. */
const SATURATION = 0.9;

/**
 * mi_seq_estimate, nats, where every response tells its prompt: the mean over rows of ln(P / columns that count as the
 * row's own). This is ln of the different prompts where each has as many columns; where some are repeated more often
 * than others, by equal tokens or by a sampler, it lies elsewhere.
 * @param rows [c] rows whose own column has c equivalents, itself included, as rowsByEquivalents() gives them
 */
export function mostInformation(rows: Int32Array): number {
  let total = 0;
  let count = 0;
  for (let equivalent = 1; equivalent < rows.length; equivalent++) {
    const alike = rows[equivalent] as number;
    total += alike * Math.log((rows.length - 1) / equivalent);
    count += alike;
  }
  return total / count;
}

/** @param most from mostInformation(): 0 if all prompts are equal and nothing can be distinguished */
export function isSaturated(estimate: number, most: number): boolean {
  return most > 0 && estimate >= SATURATION * most;
}

// Makes a step's metrics of its figures, as crossScoreMetrics gives them, as far as the judge reads them.

/**
 * @param {Record<string, { value: number, error: number }>} [more] other figures of the step by key
 * @returns {import('../dist/index.js').StepMetrics}
 */
export function stepMetrics(mi, error, entropy, more = {}) {
  /** @type {Record<string, number>} */
  const values = { mi_seq_estimate: mi, conditional_entropy_est: entropy };
  /** @type {Record<string, ReturnType<typeof certain>>} */
  const certainty = { mi_seq_estimate: certain(mi, error) };
  for (const [key, figure] of Object.entries(more)) {
    values[key] = figure.value;
    certainty[key] = certain(figure.value, figure.error);
  }
  return /** @type {import('../dist/index.js').StepMetrics} */ ({ profile: 'strict', values, absent: {}, certainty });
}

function certain(value, error) {
  const batch = { low: value - 1.96 * error, high: value + 1.96 * error, error };
  return { batch, population: batch, pValue: 0.001 };
}

// Makes a step's metrics of its figures, as crossScoreMetrics gives them, as far as the judge reads them.

/** @param more other figures of the step, { value, error } by key */
export function stepMetrics(mi, error, entropy, more = {}) {
  const values = { mi_seq_estimate: mi, conditional_entropy_est: entropy };
  const certainty = { mi_seq_estimate: certain(mi, error) };
  for (const [key, figure] of Object.entries(more)) {
    values[key] = figure.value;
    certainty[key] = certain(figure.value, figure.error);
  }
  return { profile: 'strict', values, absent: {}, certainty };
}

function certain(value, error) {
  const batch = { low: value - 1.96 * error, high: value + 1.96 * error, error };
  return { batch, population: batch, pValue: 0.001 };
}

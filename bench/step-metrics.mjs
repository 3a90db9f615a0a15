// A step's figures -> metrics as crossScoreMetrics gives them, as far as the judge reads them.

export function stepMetrics(mi, error, entropy) {
  const batch = { low: mi - 1.96 * error, high: mi + 1.96 * error, error };
  return {
    profile: 'strict',
    values: { mi_seq_estimate: mi, conditional_entropy_est: entropy },
    absent: {},
    certainty: { mi_seq_estimate: { batch, population: batch, pValue: 0.001 } },
  };
}

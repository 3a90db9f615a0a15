// Summarises samples for the stored results.

/** @param {readonly number[]} values */
export function median(values) {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  return sorted.length % 2 === 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}

/**
 * `seconds`: the median of the rounds' medians; `spread`: how far these lie from it, half their range over it. A slow
 * moment spoils one round, not all.
 * @param {readonly (readonly number[])[]} rounds  seconds, by round
 * @returns {{ seconds: number, rounds: number[], spread: number, samples: number }}
 */
export function summary(rounds) {
  const medians = rounds.filter((round) => round.length > 0).map(median);
  const seconds = median(medians);
  const spread = (Math.max(...medians) - Math.min(...medians)) / 2 / seconds;
  return { seconds, rounds: medians, spread, samples: rounds.reduce((sum, round) => sum + round.length, 0) };
}

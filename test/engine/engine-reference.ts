// The engine's operations in plain float64, written from docs/reference/metrics.md alone: what the engine is tested
// with.

/** float16 or bfloat16 bits -> the number. */
export function fromBits(bits: number, dtype: 'float16' | 'bfloat16'): number {
  if (dtype === 'bfloat16') return new Float32Array(new Uint32Array([bits << 16]).buffer)[0] as number;
  const sign = bits & 0x8000 ? -1 : 1;
  const exponent = (bits >> 10) & 31;
  const fraction = bits & 1023;
  if (exponent === 31) return fraction === 0 ? sign * Infinity : NaN;
  return exponent === 0 ? sign * fraction * 2 ** -24 : sign * (1 + fraction / 1024) * 2 ** (exponent - 15);
}

export function logMeanExp(values: readonly number[]): number {
  const max = Math.max(...values);
  if (!Number.isFinite(max)) return max;
  return max + Math.log(values.reduce((sum, value) => sum + Math.exp(value - max), 0)) - Math.log(values.length);
}

export interface ReferenceRow {
  matchedSeq: number;
  matchedToken: number;
  marginalSeq: number;
  marginalToken: number;
  looMarginalSeq: number;
  looMarginalToken: number;
  posteriorEntropy: number;
  argmax: number;
  rankAbove: number;
  rankEqual: number;
  hitRank: number;
  topColumns: number[];
}

/** One row of finite scores. */
export function rowStats(
  scores: readonly number[],
  own: number,
  length: number,
  signatures: readonly number[],
  topK: number,
): ReferenceRow {
  const tokens = scores.map((score) => score / Math.max(length, 1));
  const others = (values: readonly number[]) => values.filter((_, column) => signatures[column] !== signatures[own]);
  const loo = (values: readonly number[]) => (others(values).length === 0 ? NaN : logMeanExp(others(values)));
  const logNorm = logMeanExp(scores) + Math.log(scores.length);
  const order = scores
    .map((_, column) => column)
    .sort((a, b) => (scores[b] as number) - (scores[a] as number) || a - b);
  const matched = scores[own] as number;
  return {
    matchedSeq: matched,
    matchedToken: tokens[own] as number,
    marginalSeq: logMeanExp(scores),
    marginalToken: logMeanExp(tokens),
    looMarginalSeq: loo(scores),
    looMarginalToken: loo(tokens),
    posteriorEntropy: scores.reduce((sum, score) => sum - Math.exp(score - logNorm) * (score - logNorm), 0),
    argmax: order[0] as number,
    rankAbove: scores.filter((score) => score > matched).length,
    rankEqual: scores.filter((score) => score === matched).length,
    hitRank: order.findIndex((column) => signatures[column] === signatures[own]),
    topColumns: order.slice(0, topK),
  };
}

export function moments(values: readonly number[]): { mean: number; std: number } {
  const mean = values.reduce((sum, value) => sum + value, 0) / values.length;
  const variance = values.reduce((sum, value) => sum + (value - mean) ** 2, 0) / values.length;
  return { mean, std: Math.sqrt(variance) };
}

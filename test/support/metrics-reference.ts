// The metrics of docs/reference/metrics.md again, written down plainly in float64: what the tests hold the engine
// against.

export interface ReferenceStep {
  /** scores[r][p][t], or sums[r][p] */
  scores?: number[][][];
  sums?: number[][];
  lengths: number[];
  own: number[];
  /** Equal strings mean equivalent columns. */
  prompts: string[];
}

export function logSumExp(values: readonly number[]): number {
  const max = Math.max(...values);
  if (max === Number.NEGATIVE_INFINITY) return max;
  // Kahan, so that the reference is not the less exact side.
  let sum = 0;
  let carry = 0;
  for (const v of values) {
    const term = Math.exp(v - max) - carry;
    const next = sum + term;
    carry = next - sum - term;
    sum = next;
  }
  return max + Math.log(sum);
}

export const mean = (values: readonly number[]): number => values.reduce((a, b) => a + b, 0) / values.length;

export function std(values: readonly number[]): number {
  const m = mean(values);
  return Math.sqrt(mean(values.map((v) => (v - m) ** 2)));
}

function binomial(n: number, k: number): number {
  let result = 1;
  for (let i = 0; i < k; i++) result = (result * (n - i)) / (i + 1);
  return result;
}

export function referenceMetrics(step: ReferenceStep): Record<string, number> {
  const P = step.prompts.length;
  const used = step.lengths.map((length, r) => ({ length, r })).filter(({ length }) => length > 0);
  const S = used.map(({ length, r }) => {
    const sums = step.sums?.[r];
    if (sums) return sums;
    const columns = step.scores?.[r] ?? [];
    return columns.map((tokens) => tokens.slice(0, length).reduce((a, b) => a + b, 0));
  });
  const L = used.map(({ length }) => length);
  const own = used.map(({ r }) => step.own[r] as number);
  const M = S.map((row, i) => row.map((s) => s / (L[i] as number)));
  const matched = (A: number[][]) => A.map((row, i) => row[own[i] as number] as number);
  const marginal = (A: number[][]) => A.map((row) => logSumExp(row) - Math.log(P));
  const [mS, gS, mM, gM] = [matched(S), marginal(S), matched(M), marginal(M)];
  const excess = mS.map((m, i) => m - (gS[i] as number));
  const prompt = (p: number) => step.prompts[p] as string;
  const sameAsOwn = own.map((o) => step.prompts.filter((q) => q === prompt(o)).length);
  const loo = S.map((row, i) => {
    const others = row.filter((_, p) => prompt(p) !== prompt(own[i] as number));
    return (mS[i] as number) - (logSumExp(others) - Math.log(others.length));
  });
  const posterior = S.map((row) => {
    const z = logSumExp(row);
    return -row.reduce((a, s) => (s === Number.NEGATIVE_INFINITY ? a : a + Math.exp(s - z) * (s - z)), 0);
  });
  const ranked = S.map((row) => row.map((s, p) => ({ s, p })).sort((a, b) => b.s - a.s || a.p - b.p));
  const accuracy = (k: number) =>
    mean(ranked.map((order, i) => (order.slice(0, k).some(({ p }) => prompt(p) === prompt(own[i] as number)) ? 1 : 0)));
  const meanLength = mean(L);
  const values: Record<string, number> = {
    mi_estimate: mean(mM) - mean(gM),
    mi_seq_estimate: mean(excess),
    mi_seq_loo_estimate: mean(loo),
    mi_per_token: mean(excess.map((e, i) => e / (L[i] as number))),
    mi_upper_bound: Math.log(P),
    mi_attainable_bound: Math.log(new Set(step.prompts).size),
    conditional_entropy_est: -mean(mM),
    reasoning_entropy_est: -mean(gM),
    conditional_entropy_seq_est: -mean(mS),
    reasoning_entropy_seq_est: -mean(gS),
    posterior_entropy_mean: mean(posterior),
    marginal_std: std(gM),
    marginal_std_seq: std(gS),
    mi_zscore_floored: mean(mM.map((m, i) => m - (gM[i] as number))) / Math.max(std(gM), 0.05),
    mi_zscore_floored_seq: mean(excess) / Math.max(std(gS), 0.05 * meanLength),
    retrieval_accuracy: accuracy(1),
    retrieval_chance_level: mean(sameAsOwn.map((c) => c / P)),
    retrieval_above_chance: accuracy(1) - mean(sameAsOwn.map((c) => c / P)),
  };
  for (const k of [2, 4, 8]) {
    if (k >= P) continue;
    const chance = mean(sameAsOwn.map((c) => 1 - binomial(P - c, k) / binomial(P, k)));
    values[`retrieval_accuracy@${k}`] = accuracy(k);
    values[`retrieval_chance_exact@${k}`] = chance;
    values[`retrieval_above_chance_exact@${k}`] = accuracy(k) - chance;
  }
  return values;
}

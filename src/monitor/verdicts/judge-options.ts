// What a judge can be told beside the steps.

export interface JudgeOptions {
  /** Label permutations behind the p-values of I(X;A), I(Z;A|X) and oscillation. Default 99; 0 switches these verdicts off. */
  readonly permutations?: number | undefined;
  /** Seed of the permutations. Default 0. */
  readonly seed?: number | undefined;
}

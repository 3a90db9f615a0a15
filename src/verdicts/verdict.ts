// Verdicts of the judge as data, each with the sentence that a person reads. docs/reference/verdicts.md has the rule of
// each.
import type { REGIME_EXPLANATIONS, VERDICT_EXPLANATIONS } from './explanations.js';

/** The four regimes of RAGEN-2 on (H(Z|X), I(X;Z)), relative to the run's own start (docs/reference/verdicts.md). */
export type Regime = keyof typeof REGIME_EXPLANATIONS;

/** Every verdict there is (docs/reference/verdicts.md). */
export type VerdictKind = keyof typeof VERDICT_EXPLANATIONS;

/** How bad a verdict is. */
export type Severity = 'info' | 'warning' | 'critical';

/**
 * One thing that is the case with a run, since when, and what to do. docs/reference/verdicts.md has the rule of each
 * kind.
 */
export interface Verdict {
  readonly kind: VerdictKind;
  readonly severity: Severity;
  /** The environment that it is about, of a run whose batches mix several; … */
  readonly environment?: string;
  /** … or all those that it names. */
  readonly environments?: readonly string[];
  /** Training step from which the evidence holds: at or before `raised`. */
  readonly since: number;
  /** Training step at which it was first said; it holds from there to `step`. */
  readonly raised: number;
  /**
   * Training step at which it was said as it is here: that of `severity`, `evidence` and `sentence`. `said === step`
   * marks what is new: a verdict that begins, has become more severe, or is true of other environments.
   */
  readonly said: number;
  /** Training step that this verdict is about. */
  readonly step: number;
  /** The figures of step `said`. NaN does not occur: a figure that is not there is null. */
  readonly evidence: Readonly<Record<string, number | string | null>>;
  /** What to do, in words. */
  readonly advice: string;
  /** What is the case, in a sentence, with the figures of step `said`; a clause behind it has those of a later one. */
  readonly sentence: string;
}

/** What one rule found at one step: a verdict but for when it was first said, which the verdict log knows. */
export type Finding = Omit<Verdict, 'raised' | 'said' | 'step'> & {
  /** Step of its figures, where they are those of an earlier one. */
  readonly of?: number;
  /** The step's main figures, for a clause behind what was said at an earlier one. */
  readonly now?: string;
};

// Result of the judge after one step: its regime, its verdicts, and what they rest on.
import type { FilterGate } from '../filter/filter-gate.js';
import type { PromptTriage } from './prompt-triage.js';
import type { Regime, Verdict } from './verdict.js';
import type { Information } from './warnings/action-information.js';
import type { ActionOscillation } from './warnings/action-oscillation.js';
import type { Grounding } from './warnings/grounding.js';
import type { Specificity } from './warnings/specificity.js';

/** Position of a step on (H(Z|X), I(X;Z)). */
export interface RegimeReading {
  /** null if the evidence does not suffice (undecided): `sentence` says what is missing. */
  readonly regime: Regime | null;
  /** First step of the unbroken stretch in this regime. */
  readonly since: number;
  /**
   * I(X;Z) in nats a response with its 95% batch interval, and the run's start to compare with: both where the own
   * prompt is one of `prompts` different ones, the most that the step and the start have (0: the metrics do not say how
   * many).
   */
  readonly mi: {
    readonly value: number;
    readonly low: number;
    readonly high: number;
    readonly start: number;
    readonly prompts: number;
  } | null;
  /** H(Z|X) in nats a token, and the run's start to compare with. */
  readonly entropy: { readonly value: number; readonly start: number } | null;
  /**
   * Set if the regime rests on texts: `mi` is then their bound, and `entropy` H(Z|X) of the log-probs or the share that
   * siblings do not have in common.
   */
  readonly instrument?: 'texts';
  readonly sentence: string;
}

/** What the judge says after one step. */
export interface Judgement {
  readonly step: number;
  readonly regime: RegimeReading;
  /** Why each prompt's rewards vary or do not; empty if no rewards are given. */
  readonly triage: readonly PromptTriage[];
  /** How rows divide into specific or generic, right or wrong; null if that is not known. */
  readonly specificity: Specificity | null;
  /** "Should I filter": Std(RV)/Mean(RV) over this step's groups; null without rewards. */
  readonly filterGate: FilterGate | null;
  /** I(X;A), I(Z;A|X), nats; null if their inputs are not given. */
  readonly actionInformation: Information | null;
  readonly reasoningInformation: Information | null;
  readonly grounding: Grounding | null;
  readonly oscillation: ActionOscillation | null;
  /** Every verdict that holds at this step, the most severe first. `raised === step` marks the new ones. */
  readonly verdicts: readonly Verdict[];
  /** What must be known of what the run is compared with, said once; missing if nothing is. */
  readonly notes?: readonly string[];
}

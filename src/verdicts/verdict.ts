// What the judge says about a run: verdicts as data, each with the sentence that a person reads. docs/verdicts.md has the rule of each.
import type { FilterGate } from '../filter/filter-gate.js';
import type { PromptTriage } from './prompt-triage.js';
import type { Information } from './warnings/action-information.js';
import type { ActionOscillation } from './warnings/action-oscillation.js';
import type { Grounding } from './warnings/grounding.js';
import type { Specificity } from './warnings/specificity.js';

/** The four regimes of RAGEN-2 on (H(Z|X), I(X;Z)), relative to the run's own start (docs/verdicts.md). */
export type Regime = 'diverse' | 'template_collapse' | 'compressed' | 'low_entropy_collapse';

export type VerdictKind =
  | 'template_collapse' // I(X;Z) is far below the run's start, entropy is not
  | 'low_entropy_collapse' // both are
  | 'compressed' // entropy is far below the start, I(X;Z) is not
  | 'input_agnostic' // I(X;Z) and retrieval are what a policy that ignores its prompt has, whatever the start was
  | 'start_falling' // early warning: the first steps fall already
  | 'margin_falling' // early warning: the contrastive margin is far below its start, which I(X;Z) near its ceiling shows late
  | 'mi_falling' // early warning: a downward trend of I(X;Z) while entropy holds
  | 'mi_overshoot' // early warning: I(X;Z) rose above its start and has begun to fall back
  | 'prompts_too_easy' // low reward variance because all rollouts succeed
  | 'prompts_too_hard' // … because all fail
  | 'reward_blind' // … because different behaviour gets the same reward
  | 'specific_but_wrong' // reasoning that fits its prompt succeeds less often than reasoning that does not
  | 'entropy_gaming' // entropy has doubled while I(X;Z) and success do not rise
  | 'oscillating_actions' // A-B-A-B within episodes
  | 'actions_ignore_prompt' // I(X;A) can no longer be told from zero
  | 'actions_ignore_reasoning' // I(Z;A|X) can no longer be told from zero
  | 'ungrounded' // the state or image has lost most of its part in what makes z likely
  | 'filter_not_advised'; // the "should I filter" gate: Std(RV)/Mean(RV) is low

export type Severity = 'info' | 'warning' | 'critical';

/** One thing that is the case with a run, since when, and what to do. docs/verdicts.md has the rule of each kind. */
export interface Verdict {
  readonly kind: VerdictKind;
  readonly severity: Severity;
  /** Training step from which the evidence holds: at or before `raised`. */
  readonly since: number;
  /** Training step at which it was first said; it holds from there to `step`. */
  readonly raised: number;
  /** Training step that this verdict is about. */
  readonly step: number;
  /** The figures that it rests on. NaN does not occur: a figure that is not there is null. */
  readonly evidence: Readonly<Record<string, number | string | null>>;
  /** What to do, in words. */
  readonly advice: string;
  /** What is the case, in one sentence, with its figures. */
  readonly sentence: string;
}

/** Where a step stands on (H(Z|X), I(X;Z)). */
export interface RegimeReading {
  /** null where the evidence does not suffice (undecided): `sentence` says what is missing. */
  readonly regime: Regime | null;
  /** First step of the unbroken stretch in this regime. */
  readonly since: number;
  /**
   * I(X;Z) in nats a response with its 95% batch interval, and the run's start to compare with: both where the own prompt is
   * one of `prompts` different ones, the most that the step and the start have (0: the metrics do not say how many).
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
  readonly sentence: string;
}

/** What the judge says after one step. */
export interface Judgement {
  readonly step: number;
  readonly regime: RegimeReading;
  /** Why each prompt's rewards vary or do not; empty where no rewards are given. */
  readonly triage: readonly PromptTriage[];
  /** How rows divide into specific or generic, right or wrong; null where that is not known. */
  readonly specificity: Specificity | null;
  /** "Should I filter": Std(RV)/Mean(RV) over this step's groups; null without rewards. */
  readonly filterGate: FilterGate | null;
  /** I(X;A), I(Z;A|X), nats; null where their inputs are not given. */
  readonly actionInformation: Information | null;
  readonly reasoningInformation: Information | null;
  readonly grounding: Grounding | null;
  readonly oscillation: ActionOscillation | null;
  /** Every verdict that holds at this step, the gravest first. `raised === step` marks the new ones. */
  readonly verdicts: readonly Verdict[];
}

// What the judge says about a run: verdicts as data, each with the sentence that a person reads.
// docs/reference/verdicts.md has the rule of each.

/** The four regimes of RAGEN-2 on (H(Z|X), I(X;Z)), relative to the run's own start (docs/reference/verdicts.md). */
export type Regime = 'diverse' | 'template_collapse' | 'compressed' | 'low_entropy_collapse';

/** Every verdict there is (docs/reference/verdicts.md). */
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
  | 'template_grows' // a phrase book that most prompts share takes over the texts
  | 'repetition_loop' // texts repeat themselves, or run into the length limit
  | 'copies' // most texts are those of another prompt, word for word
  | 'filter_not_advised'; // the "should I filter" gate: Std(RV)/Mean(RV) is low

/** How bad a verdict is. */
export type Severity = 'info' | 'warning' | 'critical';

/**
 * One thing that is the case with a run, since when, and what to do. docs/reference/verdicts.md has the rule of each
 * kind.
 */
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

/** What one rule found at one step: a verdict but for when it was first said, which the verdict log knows. */
export type Finding = Omit<Verdict, 'raised' | 'step'>;

// Result of an early-stop rule when a run should end. Rules are immutable: each step makes a new one, so that a step
// that fails later leaves them as they were.

/** The early-stop rule that ends a run. */
export type StopReason = 'reward_variance_collapse' | 'low_validation_success' | 'empty_filtered_steps';

/** Why training should end, while the rule holds. */
export interface Stop {
  /** The reference's name of the rule; logged as `early_stopped/<reason>`. */
  readonly reason: StopReason;
  /** First step of the unbroken stretch that the rule counts. */
  readonly since: number;
  /** What was seen, with its figures, and what to look at. */
  readonly sentence: string;
}

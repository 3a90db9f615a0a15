// Every kind of verdict and every regime of a run, and what each means: what `collapsar explain` says. The table of all
// kinds in docs/reference/verdicts.md is made of this: `npx vitest run test/cli/explain.test.ts -u` writes it.

export interface VerdictExplanation {
  /** As words: a kind may have several. */
  readonly severity: string;
  readonly definition: string;
  readonly rule: string;
  readonly advice: string;
}

export const VERDICT_EXPLANATIONS = {
  template_collapse: {
    severity: 'critical, from texts alone also warning',
    definition: 'The reasoning is varied but has lost most of its dependence on the prompt.',
    rule: 'I(X;Z) has fallen below half of its start, H(Z|X) has not, and the start carries the fall',
    advice:
      'Stop, go back to a checkpoint from before; keep prompts of high reward variance only, lower entropy bonus and KL, look ' +
      'for noise in the reward.',
  },
  low_entropy_collapse: {
    severity: 'critical',
    definition: 'The reasoning is nearly the same for every prompt.',
    rule: 'both I(X;Z) and H(Z|X) have fallen below half of their start',
    advice: 'Stop, go back; raise the entropy bonus or KL, lower the learning rate, more varied prompts.',
  },
  compressed: {
    severity: 'info',
    definition: 'The reasoning has become much more certain and is still about its prompt.',
    rule: 'H(Z|X) has fallen below half of its start, I(X;Z) has not',
    advice: 'None needed; raise the entropy bonus if exploration is wanted.',
  },
  input_agnostic: {
    severity: 'critical or warning',
    definition: 'The batches cannot be told from those of a policy that ignores its prompts.',
    rule:
      'at two computed steps in succession the interval of I(X;Z) reaches 0 and retrieval has p > 0.05; a warning where the ' +
      'run has never shown dependence',
    advice:
      'Stop, go back to a checkpoint from before; or check that prompts reach the model and rows are labelled rightly.',
  },
  scores_mismatched: {
    severity: 'critical',
    definition:
      'The scores do not belong to the rows: responses are likelier under other prompts than under their own.',
    rule: 'from cross-scores alone: I(X;Z) is below 0 at one-sided p ≤ 0.000001 at two computed steps in succession',
    advice:
      'Correct what is scored: the order of rows, groups and prompt columns; weights and adapter that sampled; chat template; ' +
      'log-probs shifted by a token. Nothing else is said of the dependence meanwhile.',
  },
  start_falling: {
    severity: 'warning',
    definition: 'The dependence falls from the first steps on.',
    rule: 'the first values of I(X;Z) or of the margin fall to credibly less than 3/5 of what they were, while H(Z|X) holds',
    advice:
      'The first steps are no start to compare with: go back to before the run; prompts of high reward variance, a lower ' +
      'learning rate or entropy bonus.',
  },
  margin_falling: {
    severity: 'warning',
    definition: 'The contrastive margin is far below its start, which I(X;Z) near its ceiling shows late.',
    rule: 'mi_seq_margin below half of its start, at two computed steps in succession or at one beyond doubt',
    advice: 'Look at the reward variance now, filter or filter more strictly, and keep a checkpoint from before.',
  },
  mi_falling: {
    severity: 'warning',
    definition: 'I(X;Z) goes down while the entropy holds.',
    rule: 'a downward trend of I(X;Z) to below 3/4 of its start, while H(Z|X) holds',
    advice: 'Filter now, or more strictly; lower the entropy bonus; keep a checkpoint from before.',
  },
  mi_overshoot: {
    severity: 'info',
    definition: 'I(X;Z) rose above its start and has begun to fall back.',
    rule: 'I(X;Z) rose credibly above its start and fell credibly from its peak to below it, while H(Z|X) holds',
    advice: 'Keep the checkpoint of the peak, compute metrics more often.',
  },
  dependence_lower: {
    severity: 'info or warning',
    definition: 'These prompts are told apart less than before, beyond doubt, by the share that is said.',
    rule:
      'the latest 2 to 16 values of I(X;Z) lie below what is left when a tenth of the dependence is lost (p ≤ 0.00005); a ' +
      'warning where a quarter is',
    advice:
      'Look first whether the prompts have become more alike; where they have not, look at the reward variance, filter more ' +
      'strictly, and keep a checkpoint from before.',
  },
  prompts_too_easy: {
    severity: 'info',
    definition: 'For most prompts all rollouts succeed, so that their rewards do not vary.',
    rule: 'all outcomes are successes, for at least half of the prompts',
    advice: 'Filter them out, or use harder prompts.',
  },
  prompts_too_hard: {
    severity: 'info',
    definition: 'For most prompts all rollouts fail, so that their rewards do not vary.',
    rule: 'all outcomes are failures, for at least half of the prompts',
    advice: 'Easier prompts, intermediate goals, partial credit, more rollouts.',
  },
  reward_blind: {
    severity: 'info',
    definition: 'For most prompts different behaviour gets the same reward.',
    rule: 'the same reward for different outcomes or actions, for at least half of the prompts',
    advice: 'Look at the reward before filtering: a filter would only hide it.',
  },
  specific_but_wrong: {
    severity: 'info',
    definition: 'Reasoning that fits its prompt succeeds less often than reasoning that does not.',
    rule: 'a difference of more than 3.29 standard errors over the latest steps',
    advice: 'Read some specific rows that failed, and look at what the reward pays for.',
  },
  entropy_gaming: {
    severity: 'info or warning',
    definition: 'The entropy has doubled while neither I(X;Z) nor success rises with it.',
    rule: 'H(Z|X) at twice its start at two computed steps, without an upward trend of I(X;Z) or success; warning where I(X;Z) is below its start',
    advice: 'Lower the entropy bonus (or drop it). Watch I(X;Z), not entropy.',
  },
  oscillating_actions: {
    severity: 'info or warning',
    definition: 'Episodes go back and forth between two actions, A-B-A-B.',
    rule: 'a share of 25% of the episodes or more, beyond what a random order gives; warning from 50% on',
    advice:
      'Show the agent its last actions, end or penalise episodes that return to a state, filter such episodes out.',
  },
  actions_ignore_prompt: {
    severity: 'warning',
    definition: 'The actions can no longer be told to depend on the prompt.',
    rule: 'I(X;A) has p > 0.05 at 5 steps in succession, after a start that had p ≤ 0.05',
    advice:
      'Look at the reward for a single action that always pays, and at the filter for prompts that give no signal.',
  },
  actions_ignore_reasoning: {
    severity: 'warning',
    definition: 'The actions can no longer be told to depend on the reasoning.',
    rule: 'I(Z;A|X) has p > 0.05 at 5 steps in succession, after a start that had p ≤ 0.05',
    advice:
      'The reasoning has become decoration: reward that is paid through it, or shorter reasoning, brings them together.',
  },
  ungrounded: {
    severity: 'warning',
    definition: 'The state or image has lost most of its part in what makes the reasoning likely.',
    rule: 'the gain from the state is below half of its start at two steps in succession',
    advice: 'Check that the state or image still reaches the model, and filter for prompts whose reward depends on it.',
  },
  template_grows: {
    severity: 'info',
    definition: 'Phrases that most prompts share take over the texts.',
    rule: 'template_share has credibly doubled, to above 0.3',
    advice:
      'Read the phrases: a form that the reward asks for is harmless, the same reasoning for every prompt is not.',
  },
  repetition_loop: {
    severity: 'warning',
    definition: 'The texts repeat themselves, or run into the length limit.',
    rule: 'repetition has credibly doubled, to above 0.2, or truncated_share tripled, to above 0.1',
    advice: 'Penalise repeated n-grams or length, lower the temperature, mask truncated rows out of the loss.',
  },
  copies: {
    severity: 'warning',
    definition: 'Most texts are those of another prompt, word for word.',
    rule: 'duplicate_across_share above 0.5 at two steps in succession',
    advice: 'Read the text that is said most often, and what the reward pays for it.',
  },
  filter_not_advised: {
    severity: 'info',
    definition: 'All prompts vary alike in reward: a filter would only throw data away.',
    rule: 'Std(RV)/Mean(RV) said "keep all" at 3 steps in succession',
    advice: 'Train on all prompts.',
  },
} as const satisfies Readonly<Record<string, VerdictExplanation>>;

export const REGIME_EXPLANATIONS = {
  diverse: 'Neither I(X;Z) nor H(Z|X) has fallen below half of its start: varied reasoning that depends on its prompt.',
  template_collapse: 'I(X;Z) has fallen below half of its start, H(Z|X) has not: varied reasoning about nothing.',
  compressed: 'H(Z|X) has fallen below half of its start, I(X;Z) has not: certain, and still about the prompt.',
  low_entropy_collapse: 'Both have fallen below half of their start: one answer for everything.',
} as const;

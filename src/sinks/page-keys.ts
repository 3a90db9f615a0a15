// Which figures go to a sink unless all are asked for: the few that a page about the run shows.

/** Labels of samples, as logged keys begin with them; the one that the judge reads first comes first. */
export const SAMPLES = {
  collapse_first_turn_sample: 'first_turn',
  collapse_trajectory_sample: 'trajectory',
  collapse_turn_sample: 'turn',
  text: 'text',
} as const;
export type SampleLabel = keyof typeof SAMPLES;

const OF_SCORES = [
  ...['mi_seq_estimate', 'mi_seq_estimate_batch_low', 'mi_seq_estimate_batch_high', 'mi_seq_estimate_p_value'],
  ...['mi_seq_estimate_population_low', 'mi_seq_estimate_population_high', 'mi_upper_bound'],
  ...['conditional_entropy_est', 'retrieval_accuracy', 'retrieval_accuracy_batch_low', 'retrieval_accuracy_batch_high'],
  ...['retrieval_accuracy_p_value', 'retrieval_chance_level'],
  ...['mi_seq_margin', 'mi_seq_margin_batch_low', 'mi_seq_margin_batch_high'],
];

const OF_TEXTS = [
  ...['mi_bound', 'mi_bound_low', 'mi_bound_high', 'mi_bound_p_value', 'mi_upper_bound', 'conditional_entropy_est'],
  ...['retrieval_accuracy', 'retrieval_chance_level', 'sibling_novelty', 'template_share', 'repetition'],
  ...['response_length/mean'],
];

const OF_STEP = [
  ...[
    'rollout/in_group_reward_mean',
    'rollout/in_group_reward_std',
    'rollout/filter_kept_ratio',
    'rollout/filter_gate',
  ],
  ...['val-env/success', 'collapse/valid_thinking_rate'],
  ...['collapse/first_turn_num_total', 'collapse/first_turn_num_valid'],
];

/** 24 of a sample of cross-scores: 16 of its own, 8 of the step. */
export const PAGE_KEYS: ReadonlySet<string> = new Set([
  ...Object.keys(SAMPLES).flatMap((label) => (label === 'text' ? OF_TEXTS : OF_SCORES).map((key) => `${label}/${key}`)),
  ...OF_STEP,
]);

/** `page`: the few; `all`: every figure that the step has. */
export type SinkMetrics = 'page' | 'all';

/** The finite figures that are wanted, by logged key: nobody's curve has a place for NaN. */
export function chosenFigures(
  metrics: Readonly<Record<string, number>>,
  which: SinkMetrics,
): [key: string, value: number][] {
  return Object.entries(metrics).filter(
    ([key, value]) => Number.isFinite(value) && (which === 'all' || PAGE_KEYS.has(key)),
  );
}

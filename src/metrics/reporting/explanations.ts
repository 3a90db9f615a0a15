// What each metric of a step is, how it is computed and how to read it: what `collapsar explain` says.
// docs/reference/metrics.md has the same formulas; a test compares them.

export interface MetricExplanation {
  /** Names without the sample's label; `@k` stands for @2, @4 and @8. */
  readonly keys: readonly string[];
  readonly definition: string;
  /** As in docs/reference/metrics.md. */
  readonly formula: string;
  /** How to read it, and what to do. */
  readonly advice: string;
}

export const METRIC_EXPLANATIONS: readonly MetricExplanation[] = [
  {
    keys: ['mi_seq_estimate'],
    definition: 'MI, I(X;Z): what a response tells about its prompt, in nats a response. The figure to watch.',
    formula: 'mean(matched of S − marginal of S)',
    advice:
      'exp of it is the number of prompts that the reasoning tells apart: 2.08 nats of 32 prompts, about 8 of them. Look at ' +
      'the interval before the number. 0 is what reasoning that ignores its prompt has; no estimate from P prompts can ' +
      'exceed ln P. Where it falls while H(Z|X) holds, the reasoning turns into a template.',
  },
  {
    keys: ['mi_estimate'],
    definition: "RAGEN's MI, in nats a token.",
    formula: 'mean(matched of M) − mean(marginal of M)',
    advice: 'A score at temperature |Z|, at least the MI per token: good for comparing with RAGEN, not for Eq. 1.',
  },
  {
    keys: ['mi_per_token'],
    definition: 'What a token of the reasoning tells about its prompt, in nats a token.',
    formula: 'mean((matched of S − marginal of S) / length)',
    advice: 'Compare it between runs whose responses differ in length.',
  },
  {
    keys: ['mi_seq_loo_estimate'],
    definition: 'MI with the own prompt left out of the marginal: an upper estimate, in nats a response.',
    formula: 'as mi_seq_estimate, the own prompt (and its equivalents) left out of the marginal',
    advice: 'It does not saturate: watch it where mi_saturated is 1.',
  },
  {
    keys: ['mi_seq_at_<k>'],
    definition: 'MI among k prompts, k = 2, 4, 8, …, in nats a response.',
    formula:
      'mean over rows of own S − ln of the mean of exp S over the own and k − 1 other different prompts, drawn without ' +
      'replacement; at most ln k',
    advice: 'Compare steps of different numbers of prompts at the same k: their mi_seq_estimate has different bounds.',
  },
  {
    keys: ['mi_seq_standard_error', 'mi_seq_at_<k>_standard_error'],
    definition:
      'How much MI varies with the prompts of the batch: its standard error over prompts, in nats a response.',
    formula:
      'square root of (P − 1)/P · Σ (I without prompt p − the mean of these)² over the P different prompts, each left out ' +
      'with its rows and its columns: the jackknife',
    advice: 'Neighbouring steps differ by about 1.4 of it by chance: dependence_lower tells falls by it.',
  },
  {
    keys: ['mi_seq_margin'],
    definition: 'The contrastive margin: by how much a response is likelier under its own prompt than under others.',
    formula: 'mean over rows of own S − mean of S under the other different prompts (CLUB, arXiv 2006.12013)',
    advice:
      'An upper bound of MI without a ceiling, whatever the number of prompts: it falls long before a saturated MI does. ' +
      'True MI lies between mi_seq_estimate and it.',
  },
  {
    keys: ['mi_seq_margin_rows_left_out'],
    definition: 'How many rows the margin lacks.',
    formula: 'rows with −inf under another prompt, whose margin is infinite: left out of mi_seq_margin',
    advice: 'Where many are left out, the margin is of the others alone.',
  },
  {
    keys: ['mi_within'],
    definition:
      'I(X;Z|E): what a response tells about its prompt among those of its own environment, in nats a response. The figure to ' +
      'watch where a batch mixes environments.',
    formula: 'mean over rows of own S − logsumexp of S over the columns of the row’s environment + ln of their number',
    advice:
      'Where each environment collapses to a template of its own, it falls to 0 while mi_seq_estimate stays at ln of the ' +
      'number of environments: the run is judged by it.',
  },
  {
    keys: ['mi_between'],
    definition: 'I(E;Z): what a response tells about its environment, in nats a response.',
    formula: 'mi_seq_estimate − mi_within, computed by itself',
    advice:
      'Near ln of the number of environments every response tells where it is from, which collapse does not change.',
  },
  {
    keys: ['environment/<name>/<key>'],
    definition: 'A figure of one environment of the batch, where rows are named two or more.',
    formula: 'as the key is for its rows and prompts alone, as if nothing else were in the batch',
    advice:
      'Verdicts judge an environment of four prompts or more by these. A name has %25 for % and %2F for /; the 64 largest ' +
      'have keys.',
  },
  {
    keys: ['mi_upper_bound'],
    definition: 'The most that MI can be, in nats a response.',
    formula: 'ln P',
    advice: 'Score more prompts where MI comes near it.',
  },
  {
    keys: ['mi_attainable_bound'],
    definition: 'The most that MI can be where several columns are one prompt, in nats a response.',
    formula: 'ln(number of different prompts)',
    advice: 'Equivalent columns cannot be told apart: this, not ln P, is what a perfect policy reaches.',
  },
  {
    keys: ['mi_saturated'],
    definition: 'Whether MI is at its bound: 1 or 0.',
    formula:
      '1 if mi_seq_estimate is at least 0.9 of what it is where every response tells its prompt: mean over rows of ' +
      'ln(P / equivalent columns), if that is not 0. It is the attainable bound where all prompts have equally many columns',
    advice: 'The true value may be larger, and a fall above the bound cannot be seen: score more prompts.',
  },
  {
    keys: ['matched_log_prob_mean', 'marginal_log_prob_mean'],
    definition: 'Log-prob of the reasoning under its own prompt, and under no prompt in particular, in nats a token.',
    formula: 'mean matched, mean marginal, of M',
    advice: 'Their difference is what the prompt adds; the nearer they are, the less the reasoning depends on it.',
  },
  {
    keys: ['conditional_entropy_est', 'conditional_entropy_seq_est'],
    definition: 'H(Z|X): how varied the reasoning is for one prompt, in nats a token, and (seq) a response.',
    formula: '−mean matched of M, of S',
    advice: 'By itself it cannot tell exploration from collapse: read it beside MI.',
  },
  {
    keys: ['reasoning_entropy_est', 'reasoning_entropy_seq_est'],
    definition: 'H(Z): how varied the reasoning is altogether, in nats a token, and (seq) a response.',
    formula: '−mean marginal of M, of S',
    advice: 'H(Z) = H(Z|X) + MI, each per response: where it comes near H(Z|X), the prompts make no difference.',
  },
  {
    keys: ['posterior_entropy_mean'],
    definition: 'How unsure retrieval is, in nats.',
    formula: 'mean over rows of the entropy of softmax over columns of S',
    advice: '0: every response tells its prompt; ln P: full collapse.',
  },
  {
    keys: ['marginal_std', 'marginal_std_seq'],
    definition: 'Spread of the marginals between responses, in nats a token, and (seq) a response.',
    formula: 'std over rows of marginal of M, of S',
    advice: 'It is the scale of the z-scores.',
  },
  {
    keys: ['marginal_std_below_floor'],
    definition: 'Whether the z-score rests on its floor: 1 or 0.',
    formula: '1 where that floor was used',
    advice: 'The responses hardly differ: read MI, not the z-score.',
  },
  {
    keys: ['mi_zscore_floored', 'mi_zscore_floored_seq'],
    definition: 'z: MI against the spread between responses.',
    formula: 'mean(matched − marginal) / max(std of marginal, floor); floor 0.05 nats a token (× mean length for _seq)',
    advice: 'It compares runs of different spread. The floor keeps a vanishing spread from reading as health.',
  },
  {
    keys: [
      'marginal_std_ema_by_step',
      'marginal_std_ema_by_step_seq',
      'mi_zscore_ema_by_step',
      'mi_zscore_ema_by_step_seq',
    ],
    definition: 'The spread averaged over the steps before, and z-scores with it.',
    formula: 'moving average with decay 0.9 per 5 training steps; z-scores with it',
    advice: 'An irregular cadence does not distort it.',
  },
  {
    keys: ['retrieval_accuracy', 'retrieval_accuracy@k'],
    definition: 'retrieval: the share of responses that fit their own prompt best (with @k: among the k best).',
    formula: 'share of rows whose best (k best) columns hold the own prompt; ties go to the lower column',
    advice: '1: every response tells its prompt; chance: none does.',
  },
  {
    keys: ['retrieval_chance_level', 'retrieval_above_chance'],
    definition: 'chance: the retrieval of reasoning that ignores its prompt, and how far retrieval is above it.',
    formula: 'mean over rows of (columns equivalent to the own one) / P; accuracy − chance',
    advice: 'Retrieval at chance is what full collapse looks like.',
  },
  {
    keys: ['retrieval_chance_exact@k', 'retrieval_above_chance_exact@k'],
    definition: 'The same for the k best columns.',
    formula: '1 − C(P−c, k)/C(P, k), c equivalent columns; accuracy − that',
    advice: "The reference's k·chance is wrong for k > 1. Not given where k ≥ P: a hit is certain.",
  },
  {
    keys: ['collapse/first_turn_num_total', 'collapse/first_turn_num_valid', 'collapse/first_turn_valid_rate'],
    definition: 'How many rows there are, how many have reasoning, and which share that is.',
    formula: 'rows, rows with reasoning, their ratio',
    advice: 'A falling rate means that the policy stops reasoning, which the other figures leave out.',
  },
  {
    keys: ['collapse/valid_thinking_rate'],
    definition: 'Share of turns with reasoning.',
    formula: 'turns with reasoning / turns',
    advice: 'A falling rate means that the policy stops reasoning, which the other figures leave out.',
  },
  {
    keys: ['sample_size', 'sample_effective_size', 'sample_prompts'],
    definition: 'How many rows a sampler drew, how many independent ones that is worth, and from how many prompts.',
    formula: "rows drawn, Kish's n²/Σcount², prompts among them",
    advice: 'A small effective size makes wide intervals: draw more.',
  },
  {
    keys: ['retrieval_chance_level@k', 'retrieval_above_chance@k'],
    definition: "The reference's chance for the k best columns, and retrieval above it (profile ragen).",
    formula: 'min(1, min(k, P)·chance); accuracy − that',
    advice: 'Too high for k > 1: profile strict has the exact one.',
  },
  {
    keys: ['mi_zscore', 'mi_zscore_seq'],
    definition: "The reference's z-score (profile ragen).",
    formula: 'mean((matched − marginal)/(std + 1e-3))',
    advice: 'It explodes as the spread vanishes, and collapse reads as health: profile strict has a floor.',
  },
  {
    keys: ['marginal_std_ema', 'marginal_std_ema_seq', 'mi_zscore_ema', 'mi_zscore_ema_seq'],
    definition: "The reference's averaged spread, and z-scores with it (profile ragen).",
    formula: 'the first value, then 0.9·old + 0.1·new per computed step; z-scores with it',
    advice: 'It depends on how often metrics are computed; profile strict averages by training step.',
  },
  {
    keys: ['<key>_batch_low', '<key>_batch_high'],
    definition: '95% batch: the interval for these very prompts, had the responses come out differently.',
    formula: 'docs/reference/intervals.md',
    advice: 'Judge a step by it: verdicts do.',
  },
  {
    keys: ['<key>_population_low', '<key>_population_high'],
    definition: 'The 95% interval of the expected value for prompts drawn like these.',
    formula: 'docs/reference/intervals.md',
    advice: 'Compare runs on different prompts by it.',
  },
  {
    keys: ['<key>_p_value'],
    definition: 'p: how often labels shuffled over the rows score as high.',
    formula: '(1 + shuffles at least as high) / (1 + shuffles); its floor is printed as ≤0.001 with 999 shuffles',
    advice: 'Above 0.05 (marked ?) the figure may be chance: nothing says that the reasoning tells its prompt.',
  },
];

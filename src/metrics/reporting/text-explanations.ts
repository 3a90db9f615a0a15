// What each text figure is, in short; docs/reference/text-figures.md has all of it.
import type { MetricExplanation } from './explanations.js';

/** Under `text/`. */
export const TEXT_EXPLANATIONS: readonly MetricExplanation[] = [
  {
    keys: ['mi_bound', 'mi_bound_standard_error', 'mi_bound_low', 'mi_bound_high'],
    definition: 'A lower bound of I(X;Z) from texts alone, in nats a response, with its 95% interval.',
    formula:
      'mean of ln q(own prompt | text) + ln P, q a classifier of the prompt by words and pairs of words, cross-fitted',
    advice:
      'exp of it is the number of prompts that the texts tell apart, at least. ' +
      'What falls from its start while texts stay varied is template collapse; a bound is never above I(X;Z) on average.',
  },
  {
    keys: ['mi_bound_within'],
    definition: 'A lower bound of I(X;Z|E): what texts tell of their prompt among those of their own environment.',
    formula:
      'sum over environments of (share of the prompts × mi_bound of the environment alone); 0 for one without figures',
    advice:
      'Where a batch mixes environments the run is judged by it: mi_bound stays high while each has its own template.',
  },
  {
    keys: ['mi_bound_p_value', 'half_split_statistic'],
    definition: 'Whether the texts depend on their prompts at all.',
    formula: 'labels of the rows of one half are permuted, of a classifier that the other half trains',
    advice: 'Above 0.05 the texts cannot be told from ones that ignore their prompt.',
  },
  {
    keys: ['mi_bound_saturated'],
    definition: '1 where mi_bound is above 0.98 of its ceiling ln P.',
    formula: 'mi_bound > 0.98 ln P',
    advice: 'A fall is seen late there: watch specificity.',
  },
  {
    keys: ['specificity'],
    definition: 'By how much a text fits its own prompt better than the others, in nats a feature; it has no ceiling.',
    formula: 'mean of (score under the own prompt − mean over the others) / features',
    advice: 'It moves where mi_bound stands at its ceiling.',
  },
  {
    keys: ['template_share'],
    definition: 'Share of the texts that lies in phrases of four tokens that most prompts share.',
    formula: 'tokens in 4-grams of at least max(3, half of the) prompts / tokens, mean over rows',
    advice: 'Growing, it shows a template; the phrases stand beside it in the record.',
  },
  {
    keys: ['sibling_novelty'],
    definition: 'How varied the texts of one prompt are: what no other row of the prompt has.',
    formula: '4-grams that no sibling has / 4-grams, mean over rows',
    advice: 'It stands in for H(Z|X) where no log-probs are logged; it has a ceiling of 1.',
  },
  {
    keys: ['repetition'],
    definition: 'How much a text repeats itself.',
    formula: '1 − different / all 4-grams, mean over rows',
    advice: 'Above 0.2, and doubled, it is a loop.',
  },
  {
    keys: ['duplicate_share', 'duplicate_across_share'],
    definition: 'Rows that are word for word another row of their prompt, and of another prompt.',
    formula: 'rows whose token list occurs again / rows',
    advice: 'Copies across prompts of more than half of the rows say the same whatever is asked.',
  },
  {
    keys: ['rows_used', 'prompts_used'],
    definition: 'What the text figures are means over.',
    formula: 'rows with a token whose prompt has two, and those prompts',
    advice: 'Few make the interval wide; two rows a prompt are needed, or the prompts’ texts.',
  },
  {
    keys: ['empty_share', 'truncated_share'],
    definition: 'Rows without a token, and rows that the length limit cut.',
    formula: 'such rows / all rows',
    advice: 'Truncated rows that triple go with loops.',
  },
  {
    keys: ['response_length/mean', 'response_length/min', 'response_length/max'],
    definition: 'Tokens of the texts.',
    formula: 'mean, least and most over all rows',
    advice: 'Longer, noisier texts loosen the bound.',
  },
  {
    keys: ['token_entropy'],
    definition: 'Entropy of the policy where it sampled, as the log has it, in nats a token.',
    formula: 'mean over rows of their mean over tokens',
    advice: 'It estimates H(Z|X) as log-probs do.',
  },
];

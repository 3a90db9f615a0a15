// The figures of texts, one entry each, in the order of a step's record. architecture.md says how one is added.
import type { TextFigures } from '../../engine/operations/texts/text-figures.js';
import type { FigureWords, NamedFigure } from './figure.js';
import { CUT, LOG_FIGURES } from './log-columns.js';
import { asOfScores } from './score-figures.js';

/** A figure that the engine gives, or NaN for the reason of `absent`. */
interface EngineTextFigure extends NamedFigure {
  /** `texts`: given if texts distinguish prompts; `rows`: of every step with rows. */
  readonly of: 'texts' | 'rows';
  readonly value: (found: TextFigures) => number;
  readonly absent?: string | ((found: TextFigures) => string);
  /** A sum of weights that add up to 1 but for rounding. */
  readonly isShare?: true;
}

/** What the log says of each row beside its text: given by the mean over rows. */
interface LogFigure extends NamedFigure {
  readonly of: 'log';
}

export type TextFigure = EngineTextFigure | LogFigure;

const BOUND: FigureWords = {
  definition: 'A lower bound of I(X;Z) from texts alone, in nats a response, with its 95% interval.',
  formula:
    'mean of ln q(own prompt | text) + ln P, q a classifier of the prompt by words and pairs of words, cross-fitted',
  advice:
    'exp of it is the number of prompts that the texts tell apart, at least. ' +
    'What falls from its start while texts stay varied is template collapse; a bound is never above I(X;Z) on average.',
};
const USED: FigureWords = {
  definition: 'What the text figures are means over.',
  formula: 'rows with a token whose prompt has two, and those prompts',
  advice: 'Few make the interval wide; two rows a prompt are needed, or the prompts’ texts.',
};
const DEPENDS: FigureWords = {
  definition: 'Whether the texts depend on their prompts at all.',
  formula: 'labels of the rows of one half are permuted, of a classifier that the other half trains',
  advice: 'Above 0.05 the texts cannot be told from ones that ignore their prompt.',
};
const COPIES: FigureWords = {
  definition: 'Rows that are word for word another row of their prompt, and of another prompt.',
  formula: 'rows whose token list occurs again / rows',
  advice: 'Copies across prompts of more than half of the rows say the same whatever is asked.',
};
const LENGTH: FigureWords = {
  definition: 'Tokens of the texts.',
  formula: 'mean, least and most over all rows',
  advice: 'Longer, noisier texts loosen the bound.',
};

const retrievalAt = (at: 0 | 1 | 2 | 3): Omit<EngineTextFigure, 'shown'> => ({
  ...asOfScores(at === 0 ? 'retrieval_accuracy' : `retrieval_accuracy@${2 ** at}`),
  of: 'texts',
  value: ({ retrieval }) => retrieval[at],
  absent: ({ promptsUsed }) => `${2 ** at} of ${promptsUsed} prompts are all of them`,
  isShare: true,
});

export const TEXT_FIGURES: readonly TextFigure[] = [
  { key: 'rows_used', of: 'texts', value: ({ rowsUsed }) => rowsUsed, words: USED },
  { key: 'prompts_used', of: 'texts', value: ({ promptsUsed }) => promptsUsed, words: USED },
  {
    key: 'mi_bound',
    of: 'texts',
    value: ({ miBound }) => miBound,
    words: BOUND,
    shown: {
      report: 'mi',
      sinks: true,
      chart: 'bound of I(X;Z) from texts, nats a response',
      gauge: { name: 'mi_nats' },
      called: ['mi bound'],
    },
  },
  { key: 'mi_bound_standard_error', of: 'texts', value: ({ miBoundError }) => miBoundError, words: BOUND },
  {
    key: 'mi_bound_low',
    of: 'texts',
    value: ({ miBoundLow }) => miBoundLow,
    words: BOUND,
    shown: { report: 'mi_low', sinks: true, gauge: { name: 'mi_low_nats' } },
  },
  {
    key: 'mi_bound_high',
    of: 'texts',
    value: ({ miBoundHigh }) => miBoundHigh,
    words: BOUND,
    shown: { report: 'mi_high', sinks: true, gauge: { name: 'mi_high_nats' } },
  },
  {
    key: 'mi_bound_p_value',
    of: 'texts',
    value: ({ pValue }) => pValue,
    absent: 'no permutations were asked for',
    words: DEPENDS,
    shown: { report: 'mi_p', sinks: true, gauge: { name: 'mi_p_value' } },
  },
  {
    key: 'mi_bound_saturated',
    of: 'texts',
    value: ({ miBoundSaturated }) => Number(miBoundSaturated),
    words: {
      definition: '1 where mi_bound is above 0.98 of its ceiling ln P.',
      formula: 'mi_bound > 0.98 ln P',
      advice: 'A fall is seen late there: watch specificity.',
    },
  },
  {
    ...asOfScores('mi_upper_bound'),
    of: 'texts',
    value: ({ promptsUsed }) => Math.log(promptsUsed),
    shown: { report: 'bound', sinks: true },
  },
  { ...retrievalAt(0), shown: { report: 'retrieval', sinks: true, gauge: { name: 'retrieval_ratio' } } },
  ...([1, 2, 3] as const).map(retrievalAt),
  {
    ...asOfScores('retrieval_chance_level'),
    of: 'texts',
    value: ({ promptsUsed }) => 1 / promptsUsed,
    shown: { report: 'chance', sinks: true, gauge: { name: 'retrieval_chance_ratio' } },
  },
  {
    key: 'specificity',
    of: 'texts',
    value: ({ specificity }) => specificity,
    words: {
      definition:
        'By how much a text fits its own prompt better than the others, in nats a feature; it has no ceiling.',
      formula: 'mean of (score under the own prompt − mean over the others) / features',
      advice: 'It moves where mi_bound stands at its ceiling.',
    },
  },
  { key: 'half_split_statistic', of: 'texts', value: ({ halfSplitStatistic }) => halfSplitStatistic, words: DEPENDS },
  {
    key: 'template_share',
    of: 'texts',
    value: ({ templateShare }) => templateShare,
    isShare: true,
    words: {
      definition: 'Share of the texts that lies in phrases of four tokens that most prompts share.',
      formula: 'tokens in 4-grams of at least max(3, half of the) prompts / tokens, mean over rows',
      advice: 'Growing, it shows a template; the phrases stand beside it in the record.',
    },
    shown: {
      report: 'template',
      sinks: true,
      gauge: { name: 'template_ratio', help: 'Share of the texts that phrases of most prompts take up.' },
      called: ['template'],
    },
  },
  {
    key: 'sibling_novelty',
    of: 'texts',
    value: ({ siblingNovelty }) => siblingNovelty,
    absent: 'no row of four tokens or more has a sibling',
    isShare: true,
    words: {
      definition: 'How varied the texts of one prompt are: what no other row of the prompt has.',
      formula: '4-grams that no sibling has / 4-grams, mean over rows',
      advice: 'It stands in for H(Z|X) where no log-probs are logged; it has a ceiling of 1.',
    },
    shown: {
      sinks: true,
      gauge: { name: 'sibling_novelty_ratio', help: 'Share of a text that its siblings do not have.' },
      called: ['novelty'],
    },
  },
  {
    key: 'repetition',
    of: 'texts',
    value: ({ repetition }) => repetition,
    absent: 'no row has four tokens',
    isShare: true,
    words: {
      definition: 'How much a text repeats itself.',
      formula: '1 − different / all 4-grams, mean over rows',
      advice: 'Above 0.2, and doubled, it is a loop.',
    },
    shown: { report: 'repetition', sinks: true },
  },
  {
    key: 'duplicate_share',
    of: 'texts',
    value: ({ duplicateShare }) => duplicateShare,
    isShare: true,
    words: COPIES,
  },
  {
    key: 'duplicate_across_share',
    of: 'texts',
    value: ({ duplicateAcrossShare }) => duplicateAcrossShare,
    isShare: true,
    words: COPIES,
  },
  { key: 'empty_share', of: 'rows', value: ({ emptyRows, rows }) => emptyRows / rows, words: CUT },
  {
    key: 'response_length/mean',
    of: 'rows',
    value: ({ meanTokens }) => meanTokens,
    words: LENGTH,
    shown: { report: 'length', sinks: true },
  },
  { key: 'response_length/min', of: 'rows', value: ({ leastTokens }) => leastTokens, words: LENGTH },
  { key: 'response_length/max', of: 'rows', value: ({ mostTokens }) => mostTokens, words: LENGTH },
  ...LOG_FIGURES.map((figure) => ({ ...figure, of: 'log' as const })),
];

/** How the bound divides, where a step has several environments. */
export const WITHIN_TEXT_FIGURE = {
  key: 'mi_bound_within',
  words: {
    definition: 'A lower bound of I(X;Z|E): what texts tell of their prompt among those of their own environment.',
    formula:
      'sum over environments of (share of the prompts × mi_bound of the environment alone); 0 for one without figures',
    advice:
      'Where a batch mixes environments the run is judged by it: mi_bound stays high while each has its own template.',
  },
  shown: { report: 'mi_within' },
} as const satisfies NamedFigure;

// Figures beside those of cross-scores in a step's record: about its rows, its sample and its environments, and the
// companions of figures.
import type { FigureWords, NamedFigure } from './figure.js';

const VALID: FigureWords = {
  definition: 'How many rows there are, how many have reasoning, and which share that is.',
  formula: 'rows, rows with reasoning, their ratio',
  advice: 'A falling rate means that the policy stops reasoning, which the other figures leave out.',
};
const SAMPLE: FigureWords = {
  definition: 'How many rows a sampler drew, how many independent ones that is worth, and from how many prompts.',
  formula: "rows drawn, Kish's n²/Σcount², prompts among them",
  advice: 'A small effective size makes wide intervals: draw more.',
};
const BATCH: FigureWords = {
  definition: '95% batch: the interval for these very prompts, had the responses come out differently.',
  formula: 'docs/reference/intervals.md',
  advice: 'Judge a step by it: verdicts do.',
};
const POPULATION: FigureWords = {
  definition: 'The 95% interval of the expected value for prompts drawn like these.',
  formula: 'docs/reference/intervals.md',
  advice: 'Compare runs on different prompts by it.',
};
const PAIRS: FigureWords = {
  definition: 'How many (row, prompt) pairs were scored, and which share of all pairs was saved.',
  formula: 'pairs of the plan; 1 − pairs / all pairs',
  advice: 'Fewer pairs make wider intervals: docs/guide/cheaper-scoring.md.',
};

/** About the rows themselves, outside the label of a sample. */
export const ROW_FIGURES: readonly NamedFigure[] = [
  {
    key: 'collapse/valid_thinking_rate',
    words: {
      definition: 'Share of turns with reasoning.',
      formula: 'turns with reasoning / turns',
      advice: VALID.advice,
    },
    shown: { report: 'valid', sinks: true },
  },
  {
    key: 'collapse/first_turn_num_total',
    words: VALID,
    shown: { report: 'rows', sinks: true, called: ['rows'] },
  },
  { key: 'collapse/first_turn_num_valid', words: VALID, shown: { report: 'rows_used', sinks: true } },
  { key: 'collapse/first_turn_valid_rate', words: VALID },
];

/** Of what a sampler drew. */
export const SAMPLE_FIGURES: readonly NamedFigure[] = ['sample_size', 'sample_effective_size', 'sample_prompts'].map(
  (key) => ({ key, words: SAMPLE }),
);

/** How MI divides, where a step has several environments. */
export const WITHIN_FIGURES = [
  {
    key: 'mi_within',
    words: {
      definition:
        'I(X;Z|E): what a response tells about its prompt among those of its own environment, in nats a response. The figure to ' +
        'watch where a batch mixes environments.',
      formula:
        'mean over rows of own S − logsumexp of S over the columns of the row’s environment + ln of their number',
      advice:
        'Where each environment collapses to a template of its own, it falls to 0 while mi_seq_estimate stays at ln of the ' +
        'number of environments: the run is judged by it.',
    },
    shown: { report: 'mi_within' },
  },
  {
    key: 'mi_between',
    words: {
      definition: 'I(E;Z): what a response tells about its environment, in nats a response.',
      formula: 'mi_seq_estimate − mi_within, computed by itself',
      advice:
        'Near ln of the number of environments every response tells where it is from, which collapse does not change.',
    },
  },
] as const satisfies readonly NamedFigure[];

/** Of a plan of pairs. */
export const PAIR_FIGURES: readonly NamedFigure[] = [
  { key: 'scored_pairs', words: PAIRS, shown: { report: 'pairs' } },
  { key: 'scored_pairs_saved', words: PAIRS, shown: { report: 'pairs_saved' } },
];

/** What other figures are called with something before or behind them. */
export const FIGURE_FORMS: readonly NamedFigure[] = [
  {
    key: 'environment/<name>/<key>',
    words: {
      definition: 'A figure of one environment of the batch, where rows are named two or more.',
      formula: 'as the key is for its rows and prompts alone, as if nothing else were in the batch',
      advice:
        'Verdicts judge an environment of four prompts or more by these. A name has %25 for % and %2F for /; the 64 largest ' +
        'have keys.',
    },
    shown: { called: ['environment', 'environments'] },
  },
  { key: '<key>_batch_low', words: BATCH, shown: { called: ['95%_batch', 'batch'] } },
  { key: '<key>_batch_high', words: BATCH },
  { key: '<key>_population_low', words: POPULATION, shown: { called: ['population'] } },
  { key: '<key>_population_high', words: POPULATION },
  {
    key: '<key>_p_value',
    words: {
      definition: 'p: how often labels shuffled over the rows score as high.',
      formula: '(1 + shuffles at least as high) / (1 + shuffles); its floor is printed as ≤0.001 with 999 shuffles',
      advice: 'Above 0.05 (marked ?) the figure may be chance: nothing says that the reasoning tells its prompt.',
    },
    shown: { called: ['p', 'p(mi)', 'p_value', '?'] },
  },
];

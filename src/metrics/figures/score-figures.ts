// The figures of cross-scores, one entry each, in the order of a step's record. architecture.md says how one is added.
import { figure as shortFigure, withoutRounding } from '../../checks/numbers.js';
import { RETRIEVAL_AT } from '../measured-step.js';
import type { Profile } from '../step-metrics.js';
import { chanceLevel, exactChanceLevel } from './chance.js';
import {
  type AveragedFigure,
  type FigureWords,
  type NamedFigure,
  NO_MARGINAL,
  type ScoreFigure,
  type StepFound,
} from './figure.js';
import { isSaturated, mostInformation } from './saturation.js';

/**
 * Smallest spread of marginals, in nats per token, that a z-score of `strict` is measured against. Below it the spread is
 * of the order of a scorer's own rounding (bfloat16 log-probs), and dividing by it would make noise read as health.
 */
export const MARGINAL_STD_FLOOR = 0.05;

/** What the reference adds to a standard deviation before dividing by it. */
const STD_EPS = 1e-3;

const LOG_PROBS: FigureWords = {
  definition: 'Log-prob of the reasoning under its own prompt, and under no prompt in particular, in nats a token.',
  formula: 'mean matched, mean marginal, of M',
  advice:
    'Their difference is what the prompt adds; the nearer they are, the less the reasoning depends on it. Profile strict has ' +
    'their negatives, conditional_entropy_est and reasoning_entropy_est.',
};
const CONDITIONAL_ENTROPY: FigureWords = {
  definition: 'H(Z|X): how varied the reasoning is for one prompt, in nats a token, and (seq) a response.',
  formula: '−mean matched of M, of S',
  advice: 'By itself it cannot tell exploration from collapse: read it beside MI.',
};
const REASONING_ENTROPY: FigureWords = {
  definition: 'H(Z): how varied the reasoning is altogether, in nats a token, and (seq) a response.',
  formula: '−mean marginal of M, of S',
  advice: 'H(Z) = H(Z|X) + MI, each per response: where it comes near H(Z|X), the prompts make no difference.',
};
const MARGINAL_STD: FigureWords = {
  definition: 'Spread of the marginals between responses, in nats a token, and (seq) a response.',
  formula: 'std over rows of marginal of M, of S',
  advice: 'It is the scale of the z-scores.',
};
const RETRIEVAL: FigureWords = {
  definition:
    'retrieval: the share of responses that fit their own prompt best (with @k, k = 2, 4, 8: among the k best).',
  formula: 'share of rows whose best (k best) columns hold the own prompt; ties go to the lower column',
  advice: '1: every response tells its prompt; chance: none does.',
};
const CHANCE: FigureWords = {
  definition: 'chance: the retrieval of reasoning that ignores its prompt, and how far retrieval is above it.',
  formula: 'mean over rows of (columns equivalent to the own one) / P; accuracy − chance',
  advice: 'Retrieval at chance is what full collapse looks like.',
};
const EXACT_CHANCE: FigureWords = {
  definition: 'The same for the k best columns.',
  formula: '1 − C(P−c, k)/C(P, k), c equivalent columns; accuracy − that',
  advice: "The reference's k·chance is wrong for k > 1. Not given where k ≥ P: a hit is certain.",
};
const REFERENCE_CHANCE: FigureWords = {
  definition: "The reference's chance for the k best columns, and retrieval above it (profile ragen).",
  formula: 'min(1, min(k, P)·chance); accuracy − that',
  advice: 'Too high for k > 1: profile strict has the exact one.',
};
const FLOORED: FigureWords = {
  definition: 'z: MI against the spread between responses.',
  formula: 'mean(matched − marginal) / max(std of marginal, floor); floor 0.05 nats a token (× mean length for _seq)',
  advice:
    'It compares runs of different spread. Without the floor it would explode as the spread vanishes, and collapse read as ' +
    'health.',
};
const AVERAGED: FigureWords = {
  definition: 'The spread averaged over the steps before, and z-scores with it.',
  formula: 'moving average with decay 0.9 per 5 training steps; z-scores with it',
  advice: 'An irregular cadence does not distort it.',
};
const REFERENCE_Z: FigureWords = {
  definition: "The reference's z-score (profile ragen).",
  formula: 'mean((matched − marginal)/(std + 1e-3))',
  advice: 'It explodes as the spread vanishes, and collapse reads as health: profile strict has a floor.',
};
const REFERENCE_AVERAGED: FigureWords = {
  definition: "The reference's averaged spread, and z-scores with it (profile ragen).",
  formula: 'the first value, then 0.9·old + 0.1·new per computed step; z-scores with it',
  advice: 'It depends on how often metrics are computed; profile strict averages by training step.',
};
const STANDARD_ERRORS: FigureWords = {
  definition: 'How much MI varies with the prompts of the batch: its standard error over prompts, in nats a response.',
  formula:
    'square root of (P − 1)/P · Σ (I without prompt p − the mean of these)² over the P different prompts, each left out ' +
    'with its rows and its columns: the jackknife',
  advice: 'Neighbouring steps differ by about 1.4 of it by chance: dependence_lower tells falls by it.',
};

export function amongKey(prompts: number): string {
  return `mi_seq_at_${prompts}`;
}

/** Standard error over prompts of I(X;Z); those of the figures among fewer prompts end alike. */
export const PROMPT_ERROR_KEY = 'mi_seq_standard_error';

export function amongErrorKey(prompts: number): string {
  return `${amongKey(prompts)}_standard_error`;
}

/** Subset sizes that have figures in a step with `distinct` different prompts. */
function amongSizes(distinct: number): number[] {
  const found: number[] = [];
  for (let prompts = 2; prompts <= distinct; prompts *= 2) found.push(prompts);
  return found;
}

const strict = { profile: 'strict' } as const;
const ragen = { profile: 'ragen' } as const;
const ofWhole = { ofPairs: 'every pair' } as const;

const isBelowFloor = ({ spread: { current, floor } }: StepFound): boolean => current.std < floor.std;

const saturated = ({ step, most }: StepFound): boolean => isSaturated(step.moments.excessSeq.mean, most);

/** Why nothing can be said of retrieval among the best k. */
export function certainHit(k: number, columns: number): string | undefined {
  return k > 1 && k >= columns ? `the top ${k} of ${columns} columns hold every column: a hit is certain` : undefined;
}

function retrievalAt({ k, hits, figure }: (typeof RETRIEVAL_AT)[number]): ScoreFigure[] {
  const [accuracy, exact, reference] = [
    `retrieval_accuracy@${k}`,
    `retrieval_chance_exact@${k}`,
    `retrieval_chance_level@${k}`,
  ];
  return [
    {
      key: accuracy,
      // The reference gives it where a miss is impossible, too.
      value: ({ profile, retrieval }) =>
        (profile === 'strict' ? certainHit(k, retrieval.signatures.length) : undefined) ??
        retrieval.moments.hits[hits] / retrieval.moments.rows,
      certainty: { figure, within: 'share' },
      ofPairs: { best: k },
      words: RETRIEVAL,
    },
    {
      key: exact,
      ...strict,
      value: ({ retrieval }) =>
        certainHit(k, retrieval.signatures.length) ?? exactChanceLevel(retrieval.rowsByEquivalents, k),
      ofPairs: {
        value: ({ layout, alike }) => certainHit(k, layout.signatures.length) ?? exactChanceLevel(alike, k),
      },
      words: EXACT_CHANCE,
    },
    { key: `retrieval_above_chance_exact@${k}`, ...strict, of: accuracy, by: { minus: exact }, words: EXACT_CHANCE },
    {
      key: reference,
      ...ragen,
      value: ({ step }) => Math.min(1, chanceLevel(step.rowsByEquivalents) * Math.min(k, step.signatures.length)),
      ...ofWhole,
      words: REFERENCE_CHANCE,
    },
    {
      key: `retrieval_above_chance@${k}`,
      ...ragen,
      of: accuracy,
      by: { minus: reference },
      words: REFERENCE_CHANCE,
    },
  ];
}

/** The spread that a run averages over its steps, and the z-scores against it. @param scale what MI is divided by */
function averagedOver(
  profile: Profile,
  ending: string,
  words: FigureWords,
  scale: (std: number, floor: number) => number,
): AveragedFigure[] {
  const averaged = (key: string, value: AveragedFigure['averaged']): AveragedFigure => {
    return { key, profile, averaged: value, ...ofWhole, words };
  };
  return [
    averaged(`marginal_std_${ending}`, (_, { std }) => std),
    averaged(`marginal_std_${ending}_seq`, (_, { stdSeq }) => stdSeq),
    averaged(`mi_zscore_${ending}`, ({ excess, floor }, { std }) => excess.token / scale(std, floor.std)),
    averaged(`mi_zscore_${ending}_seq`, ({ excess, floor }, { stdSeq }) => excess.seq / scale(stdSeq, floor.stdSeq)),
  ];
}

export const SCORE_FIGURES: readonly ScoreFigure[] = [
  {
    key: 'mi_estimate',
    value: ({ step: { moments } }) => moments.matchedToken.mean - moments.marginalToken.mean,
    certainty: { figure: 'miToken', within: 'bounded information' },
    ofPairs: { estimate: 'miToken' },
    words: {
      definition: "RAGEN's MI, in nats a token.",
      formula: 'mean(matched of M) − mean(marginal of M)',
      advice: 'A score at temperature |Z|, at least the MI per token: good for comparing with RAGEN, not for Eq. 1.',
    },
    shown: { column: { title: 'MI/token', place: 2, profile: 'ragen', scale: 'positive' } },
  },
  {
    key: 'mi_seq_estimate',
    value: ({ step }) => withoutRounding(step.moments.excessSeq.mean),
    certainty: { figure: 'miSeq', within: 'bounded information' },
    ofPairs: { estimate: 'miSeq' },
    words: {
      definition: 'MI, I(X;Z): what a response tells about its prompt, in nats a response. The figure to watch.',
      formula: 'mean(matched of S − marginal of S)',
      advice:
        'exp of it is the number of prompts that the reasoning tells apart: 2.08 nats of 32 prompts, about 8 of them. Look at ' +
        'the interval before the number. 0 is what reasoning that ignores its prompt has; no estimate from P prompts can ' +
        'exceed ln P. Where it falls while H(Z|X) holds, the reasoning turns into a template.',
    },
    shown: {
      report: 'mi',
      companions: ['batch_low', 'batch_high', 'p_value', 'population_low', 'population_high'],
      sinks: true,
      chart: 'I(X;Z), nats a response',
      gauge: { name: 'mi_nats', help: 'I(X;Z) of the step, nats a response; of texts a lower bound.' },
      gauges: {
        batch_low: { name: 'mi_low_nats', help: 'Lower end of its 95% interval for this batch.' },
        batch_high: { name: 'mi_high_nats', help: 'Upper end of it.' },
        p_value: { name: 'mi_p_value', help: 'Permutation p-value against reasoning that ignores its prompt.' },
      },
      column: { title: 'MI', place: 1, scale: 'positive', interval: '95% batch', pValue: 'p(MI)' },
      called: ['i(x;z)'],
    },
  },
  { key: 'matched_log_prob_mean', ...ragen, of: 'conditional_entropy_est', by: 'negative', words: LOG_PROBS },
  { key: 'marginal_log_prob_mean', ...ragen, of: 'reasoning_entropy_est', by: 'negative', words: LOG_PROBS },
  {
    key: 'conditional_entropy_est',
    value: ({ step }) => -step.moments.matchedToken.mean,
    ofPairs: { value: ({ inference }) => -inference.matchedToken },
    words: CONDITIONAL_ENTROPY,
    shown: {
      report: 'entropy',
      sinks: true,
      gauge: { name: 'entropy_nats_per_token', help: 'H(Z|X), nats a token.' },
      column: { title: 'H(Z|X)', place: 5, scale: 'positive' },
      called: ['entropy'],
    },
  },
  {
    key: 'reasoning_entropy_est',
    value: ({ step }) => -step.moments.marginalToken.mean,
    ofPairs: { estimate: 'entropyToken' },
    words: REASONING_ENTROPY,
    shown: { called: ['h(z)'] },
  },
  {
    key: 'conditional_entropy_seq_est',
    value: ({ step }) => -step.moments.matchedSeq.mean,
    ofPairs: { value: ({ inference }) => -inference.matchedSeq },
    words: CONDITIONAL_ENTROPY,
  },
  {
    key: 'reasoning_entropy_seq_est',
    value: ({ step }) => -step.moments.marginalSeq.mean,
    ofPairs: { estimate: 'entropySeq' },
    words: REASONING_ENTROPY,
  },
  { key: 'marginal_std', value: ({ spread }) => spread.current.std, ...ofWhole, words: MARGINAL_STD },
  { key: 'marginal_std_seq', value: ({ spread }) => spread.current.stdSeq, ...ofWhole, words: MARGINAL_STD },
  {
    key: 'retrieval_accuracy',
    value: ({ retrieval: { moments } }) => moments.hits[0] / moments.rows,
    certainty: { figure: 'retrieval1', within: 'share' },
    ofPairs: { best: 1 },
    words: RETRIEVAL,
    shown: {
      report: 'retrieval',
      companions: ['batch_low', 'batch_high', 'p_value'],
      sinks: true,
      chart: 'retrieval',
      gauge: { name: 'retrieval_ratio', help: 'Share of responses whose own prompt fits best.' },
      column: { title: 'retrieval', place: 3, scale: 'share', chance: 'retrieval_chance_level' },
    },
  },
  {
    key: 'retrieval_chance_level',
    value: ({ retrieval }) => chanceLevel(retrieval.rowsByEquivalents),
    ofPairs: { value: ({ alike }) => chanceLevel(alike) },
    words: CHANCE,
    shown: {
      report: 'chance',
      sinks: true,
      gauge: { name: 'retrieval_chance_ratio', help: 'What chance alone would retrieve.' },
      column: { title: 'chance', place: 4, dispensable: 2 },
    },
  },
  {
    key: 'retrieval_above_chance',
    of: 'retrieval_accuracy',
    by: { minus: 'retrieval_chance_level' },
    words: CHANCE,
  },
  {
    key: 'mi_per_token',
    ...strict,
    value: ({ step }) => step.moments.excessPerToken.mean,
    certainty: { figure: 'miPerToken', within: 'information' },
    ofPairs: { estimate: 'miPerToken' },
    words: {
      definition: 'What a token of the reasoning tells about its prompt, in nats a token.',
      formula: 'mean((matched of S − marginal of S) / length)',
      advice: 'Compare it between runs whose responses differ in length.',
    },
  },
  {
    key: 'mi_upper_bound',
    value: ({ profile, step }) => Math.log(profile === 'ragen' ? step.signatures.length : step.prompts),
    ofPairs: { value: ({ layout }) => Math.log(layout.signatures.length) },
    words: {
      definition: 'The most that MI can be, in nats a response.',
      formula: 'ln P',
      advice: 'Score more prompts where MI comes near it.',
    },
    shown: { report: 'bound', sinks: true },
  },
  {
    key: 'mi_attainable_bound',
    ...strict,
    value: ({ step }) => Math.log(step.distinct),
    ofPairs: { value: ({ layout }) => Math.log(layout.distinct) },
    words: {
      definition: 'The most that MI can be where several columns are one prompt, in nats a response.',
      formula: 'ln(number of different prompts)',
      advice: 'Equivalent columns cannot be told apart: this, not ln P, is what a perfect policy reaches.',
    },
  },
  {
    key: 'mi_seq_loo_estimate',
    ...strict,
    value: ({ step: { moments, distinct } }) => {
      if (Number.isFinite(moments.looExcessSeq.mean)) return moments.looExcessSeq.mean;
      return distinct < 2
        ? 'all columns have the same prompt, so that none is left when the own prompt is left out'
        : 'every other prompt gives some row a log-prob of minus infinity, so that its leave-one-out value is infinite';
    },
    certainty: { figure: 'miSeqLoo', within: 'information' },
    ofPairs: { estimate: 'miSeqLoo' },
    words: {
      definition: 'MI with the own prompt left out of the marginal: an upper estimate, in nats a response.',
      formula: 'as mi_seq_estimate, the own prompt (and its equivalents) left out of the marginal',
      advice: 'It does not saturate: watch it where mi_saturated is 1.',
    },
  },
  {
    key: 'mi_saturated',
    ...strict,
    value: (found) => (saturated(found) ? 1 : 0),
    note: (found) =>
      saturated(found)
        ? `MI is saturated: ${shortFigure(found.step.moments.excessSeq.mean)} of at most ${shortFigure(found.most)} nats; ` +
          'the true value may be larger (leave-one-out gives an upper estimate) and its batch interval cover less than ' +
          'it says, score more prompts to see it'
        : undefined,
    ofPairs: {
      value: ({ inference, alike }) => {
        const { estimate } = inference.figures.miSeq;
        if (!Number.isFinite(estimate)) return NO_MARGINAL;
        return isSaturated(estimate, mostInformation(alike)) ? 1 : 0;
      },
      note: (value) =>
        value === 1 ? 'MI is saturated: the true value may be larger than this many prompts can show' : undefined,
    },
    words: {
      definition: 'Whether MI is at its bound: 1 or 0.',
      formula:
        '1 if mi_seq_estimate is at least 0.9 of what it is where every response tells its prompt: mean over rows of ' +
        'ln(P / equivalent columns), if that is not 0. It is the attainable bound where all prompts have equally many columns',
      advice: 'The true value may be larger, and a fall above the bound cannot be seen: score more prompts.',
    },
  },
  {
    key: 'posterior_entropy_mean',
    ...strict,
    value: ({ retrieval }) => retrieval.moments.posteriorEntropy.mean,
    ...ofWhole,
    words: {
      definition: 'How unsure retrieval is, in nats.',
      formula: 'mean over rows of the entropy of softmax over columns of S',
      advice: '0: every response tells its prompt; ln P: full collapse.',
    },
  },
  {
    key: 'mi_zscore_floored',
    ...strict,
    value: ({ spread: { current, excess, floor } }) => excess.token / Math.max(current.std, floor.std),
    ...ofWhole,
    words: FLOORED,
    shown: { column: { title: 'z', place: 6, profile: 'strict', dispensable: 4 } },
  },
  {
    key: 'mi_zscore_floored_seq',
    ...strict,
    value: ({ spread: { current, excess, floor } }) => excess.seq / Math.max(current.stdSeq, floor.stdSeq),
    ...ofWhole,
    words: FLOORED,
  },
  {
    key: 'marginal_std_below_floor',
    ...strict,
    value: (found) => (isBelowFloor(found) ? 1 : 0),
    note: (found) =>
      isBelowFloor(found)
        ? `marginal log-probs hardly differ between rows (std ${shortFigure(found.spread.current.std)} nats a token): ` +
          `the z-score is measured against a floor of ${found.spread.floor.std}`
        : undefined,
    ...ofWhole,
    words: {
      definition: 'Whether the z-score rests on its floor: 1 or 0.',
      formula: '1 where that floor was used',
      advice: 'The responses hardly differ: read MI, not the z-score.',
    },
  },
  ...averagedOver('strict', 'ema_by_step', AVERAGED, (std, floor) => Math.max(std, floor)),
  ...RETRIEVAL_AT.flatMap(retrievalAt),
  {
    key: 'mi_zscore',
    ...ragen,
    value: ({ spread: { current, excess } }) => excess.token / (current.std + STD_EPS),
    ...ofWhole,
    words: REFERENCE_Z,
    shown: { column: { title: 'z', place: 6, profile: 'ragen', dispensable: 4 } },
  },
  {
    key: 'mi_zscore_seq',
    ...ragen,
    value: ({ spread: { current, excess } }) => excess.seq / (current.stdSeq + STD_EPS),
    ...ofWhole,
    words: REFERENCE_Z,
  },
  ...averagedOver('ragen', 'ema', REFERENCE_AVERAGED, (std) => std + STD_EPS),
  {
    key: 'mi_seq_at_<k>',
    ...strict,
    subset: (distinct: number) => amongSizes(distinct).map(amongKey),
    batchOnly: true,
    ...ofWhole,
    words: {
      definition: 'MI among k prompts, k = 2, 4, 8, …, in nats a response.',
      formula:
        'mean over rows of own S − ln of the mean of exp S over the own and k − 1 other different prompts, drawn without ' +
        'replacement; at most ln k',
      advice:
        'Compare steps of different numbers of prompts at the same k: their mi_seq_estimate has different bounds.',
    },
  },
  {
    key: PROMPT_ERROR_KEY,
    ...strict,
    subset: () => [PROMPT_ERROR_KEY],
    batchOnly: false,
    ...ofWhole,
    words: STANDARD_ERRORS,
  },
  {
    key: 'mi_seq_at_<k>_standard_error',
    ...strict,
    subset: (distinct: number) => amongSizes(distinct).map(amongErrorKey),
    batchOnly: false,
    ...ofWhole,
    words: STANDARD_ERRORS,
  },
  {
    key: 'mi_seq_margin',
    ...strict,
    subset: () => ['mi_seq_margin'],
    batchOnly: true,
    ...ofWhole,
    words: {
      definition: 'The contrastive margin: by how much a response is likelier under its own prompt than under others.',
      formula: 'mean over rows of own S − mean of S under the other different prompts (CLUB, arXiv 2006.12013)',
      advice:
        'An upper bound of MI without a ceiling, whatever the number of prompts: it falls long before a saturated MI does. ' +
        'True MI lies between mi_seq_estimate and it.',
    },
    shown: {
      report: 'margin',
      companions: ['batch_low', 'batch_high'],
      sinks: true,
      chart: 'margin, nats a response',
    },
  },
  {
    key: 'mi_seq_margin_rows_left_out',
    ...strict,
    subset: () => ['mi_seq_margin_rows_left_out'],
    batchOnly: false,
    ...ofWhole,
    words: {
      definition: 'How many rows the margin lacks.',
      formula: 'rows with −inf under another prompt, whose margin is infinite: left out of mi_seq_margin',
      advice: 'Where many are left out, the margin is of the others alone.',
    },
  },
];

/** A figure of something else that cross-scores have under the same key means the same. */
export function asOfScores(key: string): Pick<NamedFigure, 'key' | 'words'> {
  const { words } = SCORE_FIGURES.find((entry) => entry.key === key) as NamedFigure;
  return { key, words };
}

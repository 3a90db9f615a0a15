// The record of a step -> the figures that the page shows, whichever instrument measured them.
import type { StepRecord } from '../../step/step-record.js';
import type { FigureName } from '../report.js';

/** Labels under which a record's figures stand, the one that the judge reads first. */
const SCORES = ['collapse_first_turn_sample', 'collapse_trajectory_sample', 'collapse_turn_sample'] as const;
const TEXT = 'text';

export interface InstrumentOfRun {
  readonly instrument: 'scores' | 'texts';
  readonly hasEntropy: boolean;
  readonly label: string;
}

/** What a run's first record says of all: a run is measured by one instrument. */
export function instrumentOf(record: StepRecord): InstrumentOfRun | undefined {
  const keys = Object.keys(record);
  const label = SCORES.find((name) => keys.some((key) => key.startsWith(`${name}/`)));
  if (label !== undefined) return { instrument: 'scores', hasEntropy: true, label };
  if (!keys.some((key) => key.startsWith(`${TEXT}/`))) return undefined;
  return { instrument: 'texts', hasEntropy: `${TEXT}/conditional_entropy_est` in record, label: TEXT };
}

/** Named as logged, without the label. */
const OF_SCORES: Partial<Record<FigureName, string>> = {
  mi: 'mi_seq_estimate',
  mi_low: 'mi_seq_estimate_batch_low',
  mi_high: 'mi_seq_estimate_batch_high',
  mi_p: 'mi_seq_estimate_p_value',
  mi_population_low: 'mi_seq_estimate_population_low',
  mi_population_high: 'mi_seq_estimate_population_high',
  mi_within: 'mi_within',
  bound: 'mi_upper_bound',
  entropy: 'conditional_entropy_est',
  retrieval: 'retrieval_accuracy',
  retrieval_low: 'retrieval_accuracy_batch_low',
  retrieval_high: 'retrieval_accuracy_batch_high',
  retrieval_p: 'retrieval_accuracy_p_value',
  chance: 'retrieval_chance_level',
  margin: 'mi_seq_margin',
  margin_low: 'mi_seq_margin_batch_low',
  margin_high: 'mi_seq_margin_batch_high',
  pairs: 'scored_pairs',
  pairs_saved: 'scored_pairs_saved',
};

const OF_TEXTS: Partial<Record<FigureName, string>> = {
  mi: 'mi_bound',
  mi_low: 'mi_bound_low',
  mi_high: 'mi_bound_high',
  mi_p: 'mi_bound_p_value',
  mi_within: 'mi_bound_within',
  bound: 'mi_upper_bound',
  retrieval: 'retrieval_accuracy',
  chance: 'retrieval_chance_level',
};

/** Whole keys: they are the same for all instruments. */
const OF_STEP: Partial<Record<FigureName, string>> = {
  reward: 'rollout/in_group_reward_mean',
  reward_std: 'rollout/in_group_reward_std',
  kept: 'rollout/filter_kept_ratio',
  gate: 'rollout/filter_gate',
  valid: 'collapse/valid_thinking_rate',
  rows: 'collapse/first_turn_num_total',
  rows_used: 'collapse/first_turn_num_valid',
  length: `${TEXT}/response_length/mean`,
  template: `${TEXT}/template_share`,
  repetition: `${TEXT}/repetition`,
};

/** Figure -> logged key. */
export function keysOf({ instrument, hasEntropy, label }: InstrumentOfRun): [FigureName, string][] {
  const ofLabel = instrument === 'scores' ? OF_SCORES : OF_TEXTS;
  const entropy = hasEntropy ? 'conditional_entropy_est' : 'sibling_novelty';
  const keys = { ...ofLabel, ...(instrument === 'texts' ? { entropy } : {}) };
  const logged = Object.entries(keys).map(([name, key]) => [name, `${label}/${key}`]);
  return [...logged, ...Object.entries(OF_STEP)] as [FigureName, string][];
}

/** Of an environment of a mixed batch: its dependence, and the most that there could be, ln of its prompts. */
const OF_ENVIRONMENT = ['mi', 'bound'] as const;

/** Figures of the environments that a record has, [name on the page, value]: `environment/<name>/mi`. */
export function environmentFigures(record: StepRecord, of: InstrumentOfRun): [string, number][] {
  const logged = of.instrument === 'scores' ? OF_SCORES : OF_TEXTS;
  return Object.entries(record).flatMap(([key, value]) => {
    const [, place, rest] = /^(environment\/[^/]+)\/(.*)$/.exec(key) ?? [];
    const figure = OF_ENVIRONMENT.find((name) => rest === `${of.label}/${logged[name]}`);
    return figure === undefined || typeof value !== 'number' ? [] : [[`${place}/${figure}`, value] as [string, number]];
  });
}

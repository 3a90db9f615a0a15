// The figures of a step that a table shows, whichever instrument measured them: cross-scores, or texts.

import { toldApart } from '../../../checks/numbers.js';
import type { StepMetrics } from '../../../metrics/step-metrics.js';
import type { TextMetrics } from '../../../metrics/text-metrics.js';
import type { StepReport } from '../../../step/step-report.js';

export type ShownMetrics = Pick<
  StepMetrics,
  'profile' | 'values' | 'certainty' | 'notes' | 'rows' | 'columns' | 'logged'
> & { readonly label: string };

/** Label of text figures; their logged keys begin with it. */
export const TEXT_LABEL = 'text';

/** Metrics of a step, the sample that the judge reads first. */
export function shownMetrics({ samples, texts }: StepReport): ShownMetrics[] {
  if (texts === undefined) return [...samples];
  return [...samples, ofTexts(texts)];
}

function ofTexts({ values, interval, pValue, notes, rows, prompts, logged }: TextMetrics): ShownMetrics {
  const { total, used, empty: zeroLength } = rows;
  return {
    profile: 'strict',
    label: TEXT_LABEL,
    values,
    certainty: { mi_bound: { batch: interval, population: interval, pValue } },
    notes,
    rows: { total, used, zeroLength, nonFinite: [] },
    columns: { total: prompts.used, distinct: prompts.used },
    logged,
  };
}

/** Under which key a step has what a column is about. */
export interface FigureKeys {
  readonly mi: string;
  readonly miTitle: string;
  readonly entropy: string;
  readonly entropyTitle: string;
}

const OF_SCORES: FigureKeys = {
  mi: 'mi_seq_estimate',
  miTitle: 'MI',
  entropy: 'conditional_entropy_est',
  entropyTitle: 'H(Z|X)',
};
const OF_LOGPROBS: FigureKeys = { ...OF_SCORES, mi: 'mi_bound', miTitle: 'MI bound' };
const OF_TEXTS: FigureKeys = { ...OF_LOGPROBS, entropy: 'sibling_novelty', entropyTitle: 'novelty' };

export function figureKeys(metrics: Pick<ShownMetrics, 'label' | 'values'> | undefined): FigureKeys {
  if (metrics?.label !== TEXT_LABEL) return OF_SCORES;
  return OF_SCORES.entropy in metrics.values ? OF_LOGPROBS : OF_TEXTS;
}

/** What MI says in words; nothing if there is none. With the batch's interval: of one step. */
export function toldApartWords(metrics: ShownMetrics | undefined, withInterval = false): string[] {
  const { mi } = figureKeys(metrics);
  const value = metrics?.values[mi];
  if (metrics === undefined || value === undefined || !Number.isFinite(value) || metrics.columns.distinct < 2)
    return [];
  const batch = metrics.certainty[mi]?.batch;
  const interval = withInterval && batch !== undefined && 'low' in batch ? batch : undefined;
  return [toldApart(value, metrics.columns.distinct, interval)];
}

// Which figures of a step the table shows, under which headings, and on which scale their trends are drawn.

import { isLeastP, MISSING, shortNumber } from '../../../checks/numbers.js';
import { printable } from '../../../checks/words.js';
import type { Certainty } from '../../../metrics/step-metrics.js';
import type { StepReport } from '../../../step/step-report.js';
import type { Cell } from '../table.js';
import { type FigureKeys, figureKeys, type ShownMetrics, TEXT_LABEL } from './shown-metrics.js';
import { stateMark } from './state-marks.js';

export interface StepColumn {
  readonly title: string;
  readonly align: 'left' | 'right';
  /** As of a table's column. */
  readonly dispensable?: number;
  cell(report: StepReport, metrics: ShownMetrics): Cell;
  /** The figure behind the cell, of columns that have a trend. */
  readonly figure?: (report: StepReport, metrics: ShownMetrics) => number | undefined;
  /**
   * Where its trend is drawn. `positive`: from 0 to the highest of all runs; `share`: from 0 to 1; `signed`: as
   * `positive`, but down to the lowest where that is below 0.
   */
  readonly scale?: 'positive' | 'share' | 'signed';
  /** A level that the trend is drawn against: what is not above it is drawn as a line. */
  readonly chance?: (metrics: ShownMetrics) => number | undefined;
}

/** A p-value above this leaves it open whether there is any signal: the figure is marked. */
const DOUBTFUL = 0.05;

export function isDoubtful({ certainty }: ShownMetrics, key: string): boolean {
  const p = certainty[key]?.pValue;
  return typeof p === 'number' && p > DOUBTFUL;
}

/** A figure as a cell, with a mark where chance may have made it. */
export function figureCell(metrics: ShownMetrics | undefined, key: string): Cell {
  const text = shortNumber(metrics?.values[key]);
  return metrics !== undefined && isDoubtful(metrics, key) ? { text: `${text}?`, style: 'red' } : { text };
}

function valueColumn(title: string, key: string, more: Partial<StepColumn> = {}): StepColumn {
  return {
    title,
    align: 'right',
    cell: (_, metrics) => figureCell(metrics, key),
    figure: (_, { values }) => values[key],
    ...more,
  };
}

/** A column that says how sure another one is. */
function certaintyColumn(title: string, key: string, dispensable: number, show: (of: Certainty) => string): StepColumn {
  return {
    title,
    align: 'right',
    dispensable,
    cell: (_, { certainty }) => {
      const found = certainty[key];
      return { text: found === undefined ? MISSING : show(found) };
    },
  };
}

const batchInterval = ({ batch }: Certainty): string =>
  'low' in batch ? `[${shortNumber(batch.low)}, ${shortNumber(batch.high)}]` : MISSING;

/** @param permutations behind the p-value: none is below 1 / (permutations + 1), which stands for "or less" */
function pValueText({ pValue: p }: Certainty, permutations: number): string {
  if (typeof p !== 'number') return MISSING;
  return isLeastP(p, permutations) ? `≤${Number(p.toPrecision(1))}` : shortNumber(p);
}

const rows: StepColumn = {
  title: 'rows',
  align: 'right',
  dispensable: 3,
  cell: (_, { rows: { used, total } }) => ({ text: `${used}/${total}`, style: used < total ? 'yellow' : undefined }),
};

const state: StepColumn = {
  title: 'state',
  align: 'right',
  cell: ({ judgement }) => {
    const { letter, style } = stateMark(judgement?.regime.regime);
    return { text: letter ?? MISSING, style };
  },
};

const entropy = valueColumn('H(Z|X)', 'conditional_entropy_est', { scale: 'positive' });
const mi = valueColumn('MI', 'mi_seq_estimate', { scale: 'positive' });
const retrieval = valueColumn('retrieval', 'retrieval_accuracy', {
  scale: 'share',
  chance: ({ values }) => values.retrieval_chance_level,
});
const chance: StepColumn = {
  title: 'chance',
  align: 'right',
  dispensable: 2,
  cell: (_, metrics) => figureCell(metrics, 'retrieval_chance_level'),
};
const zScore = (key: string): StepColumn => ({
  title: 'z',
  align: 'right',
  dispensable: 4,
  cell: (_, metrics) => figureCell(metrics, key),
});

const strict = (permutations: number): StepColumn[] => [
  state,
  mi,
  certaintyColumn('95% batch', 'mi_seq_estimate', 1, batchInterval),
  ...(permutations > 0 ? [certaintyColumn('p(MI)', 'mi_seq_estimate', 1, (of) => pValueText(of, permutations))] : []),
  retrieval,
  chance,
  entropy,
  zScore('mi_zscore_floored'),
];

/** What texts say, under both profiles. */
const texts = (permutations: number, { entropy: key, entropyTitle }: FigureKeys): StepColumn[] => [
  state,
  valueColumn('MI bound', 'mi_bound', { scale: 'signed' }),
  certaintyColumn('95%', 'mi_bound', 1, batchInterval),
  ...(permutations > 0 ? [certaintyColumn('p', 'mi_bound', 1, (of) => pValueText(of, permutations))] : []),
  retrieval,
  chance,
  valueColumn(entropyTitle, key, { scale: entropyTitle === 'novelty' ? 'share' : 'positive' }),
  valueColumn('template', 'template_share', { scale: 'share' }),
  valueColumn('specificity', 'specificity', { dispensable: 4 }),
];

const RAGEN: readonly StepColumn[] = [
  mi,
  valueColumn('MI/token', 'mi_estimate', { scale: 'positive' }),
  retrieval,
  chance,
  entropy,
  zScore('mi_zscore'),
];

/** The figures that tell collapse from health. */
export function usualColumns(
  first: Pick<ShownMetrics, 'profile' | 'label' | 'values'>,
  permutations: number,
): readonly StepColumn[] {
  const { profile, label } = first;
  if (label === TEXT_LABEL) return texts(permutations, figureKeys(first));
  return profile === 'strict' ? strict(permutations) : RAGEN;
}

/** Rows that figures are means over: shown where not all are. */
export const rowsColumn = rows;

/** The column of a logged key. */
export function chosenColumn(key: string): StepColumn {
  const figure = (report: StepReport) => {
    const value = report.record[key];
    if (value === undefined) return undefined;
    return typeof value === 'number' ? value : Number.NaN;
  };
  return {
    title: printable(key.slice(key.indexOf('/') + 1)),
    align: 'right',
    cell: (report) => ({ text: shortNumber(figure(report)) }),
    figure,
    scale: 'signed',
  };
}

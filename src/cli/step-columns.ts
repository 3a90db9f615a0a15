// Which figures of a step the table shows, under which headings.
import type { StepReport } from '../analysis/step-report.js';
import { printable } from '../logs/printable.js';
import type { Certainty, StepMetrics } from '../metrics/step-metrics.js';
import type { Regime } from '../monitor/verdicts/index.js';
import { MISSING, shortNumber } from './number-format.js';
import type { Cell } from './table.js';
import type { Style } from './text-style.js';

export interface StepColumn {
  readonly title: string;
  readonly align: 'left' | 'right';
  cell(report: StepReport, metrics: StepMetrics): Cell;
  /** The figure behind the cell, for the trend line; columns without have none. */
  readonly figure?: (report: StepReport, metrics: StepMetrics) => number | undefined;
}

/** A p-value above this leaves it open whether there is any signal: the figure is marked. */
const DOUBTFUL = 0.05;

function valueColumn(title: string, key: string): StepColumn {
  return {
    title,
    align: 'right',
    cell: (_, { values, certainty }) => {
      const p = certainty[key]?.pValue;
      const doubtful = typeof p === 'number' && p > DOUBTFUL;
      return { text: shortNumber(values[key]), style: doubtful ? 'red' : undefined };
    },
    figure: (_, { values }) => values[key],
  };
}

/** A column that says how sure another one is. */
function certaintyColumn(title: string, key: string, show: (certainty: Certainty) => string): StepColumn {
  return {
    title,
    align: 'right',
    cell: (_, { certainty }) => {
      const found = certainty[key];
      return { text: found === undefined ? MISSING : show(found) };
    },
  };
}

const batchInterval = ({ batch }: Certainty): string =>
  'low' in batch ? `[${shortNumber(batch.low)}, ${shortNumber(batch.high)}]` : MISSING;

const pValue = ({ pValue: p }: Certainty): string => (typeof p === 'number' ? shortNumber(p) : MISSING);

const rows: StepColumn = {
  title: 'rows',
  align: 'right',
  cell: (_, { rows: { used, total } }) => ({ text: `${used}/${total}`, style: used < total ? 'yellow' : undefined }),
};

/** One letter a regime: the sentences under the table say the rest. */
const REGIME_MARK: Readonly<Record<Regime, { text: string; style?: Style }>> = {
  diverse: { text: 'D' },
  template_collapse: { text: 'T', style: 'red' },
  compressed: { text: 'C', style: 'yellow' },
  low_entropy_collapse: { text: 'L', style: 'red' },
};

const regime: StepColumn = {
  title: 'state',
  align: 'right',
  cell: ({ judgement }) => {
    const name = judgement?.regime.regime;
    return name == null ? { text: MISSING } : REGIME_MARK[name];
  },
};

const STRICT: readonly StepColumn[] = [
  valueColumn('H(Z|X)', 'conditional_entropy_est'),
  valueColumn('MI', 'mi_seq_estimate'),
  certaintyColumn('95% batch', 'mi_seq_estimate', batchInterval),
  certaintyColumn('p', 'mi_seq_estimate', pValue),
  valueColumn('retrieval', 'retrieval_accuracy'),
  valueColumn('chance', 'retrieval_chance_level'),
  certaintyColumn('p', 'retrieval_accuracy', pValue),
  valueColumn('z', 'mi_zscore_floored'),
  rows,
  regime,
];

const RAGEN: readonly StepColumn[] = [
  valueColumn('H(Z|X)', 'conditional_entropy_est'),
  valueColumn('MI/token', 'mi_estimate'),
  valueColumn('MI', 'mi_seq_estimate'),
  valueColumn('retrieval', 'retrieval_accuracy'),
  valueColumn('chance', 'retrieval_chance_level'),
  valueColumn('z', 'mi_zscore'),
  rows,
];

/** The figures that tell collapse from health. */
export function usualColumns(metrics: StepMetrics): readonly StepColumn[] {
  return metrics.profile === 'strict' ? STRICT : RAGEN;
}

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
  };
}

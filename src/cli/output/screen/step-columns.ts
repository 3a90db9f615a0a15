// Chooses the figures of a step for the table, their headings, and the scale on which their trends are drawn.

import { isLeastP, MISSING, shortNumber } from '../../../checks/numbers.js';
import { printable } from '../../../checks/words.js';
import { SCORE_FIGURES } from '../../../metrics/figures/score-figures.js';
import type { Certainty, Profile } from '../../../metrics/step-metrics.js';
import { allFigures } from '../../../step/step-record.js';
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

/** A column without a trend. */
function plainColumn(title: string, key: string, dispensable?: number): StepColumn {
  return {
    title,
    align: 'right',
    ...(dispensable !== undefined && { dispensable }),
    cell: (_, metrics) => figureCell(metrics, key),
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

const RETRIEVAL = valueColumn('retrieval', 'retrieval_accuracy', {
  scale: 'share',
  chance: ({ values }) => values.retrieval_chance_level,
});
const CHANCE = plainColumn('chance', 'retrieval_chance_level', 2);

/** The figures of cross-scores that have a column, each followed by how sure it is. */
function ofScores(profile: Profile, permutations: number): StepColumn[] {
  const shown = SCORE_FIGURES.flatMap(({ key, shown: { column } = {} }) =>
    column === undefined ? [] : { key, column },
  )
    .filter(({ column }) => column.profile === undefined || column.profile === profile)
    .sort((a, b) => a.column.place - b.column.place);
  return shown.flatMap(({ key, column }) => {
    const { title, dispensable, scale, chance, interval, pValue } = column;
    const level = chance && { chance: ({ values }: ShownMetrics) => values[chance] };
    const isSure = profile === 'strict';
    return [
      scale === undefined
        ? plainColumn(title, key, dispensable)
        : valueColumn(title, key, { scale, ...level, ...(dispensable !== undefined && { dispensable }) }),
      ...(isSure && interval !== undefined ? [certaintyColumn(interval, key, 1, batchInterval)] : []),
      ...(isSure && pValue !== undefined && permutations > 0
        ? [certaintyColumn(pValue, key, 1, (of) => pValueText(of, permutations))]
        : []),
    ];
  });
}

/** What texts say, under both profiles. */
const texts = (permutations: number, { entropy: key, entropyTitle }: FigureKeys): StepColumn[] => [
  state,
  valueColumn('MI bound', 'mi_bound', { scale: 'signed' }),
  certaintyColumn('95%', 'mi_bound', 1, batchInterval),
  ...(permutations > 0 ? [certaintyColumn('p', 'mi_bound', 1, (of) => pValueText(of, permutations))] : []),
  RETRIEVAL,
  CHANCE,
  valueColumn(entropyTitle, key, { scale: entropyTitle === 'novelty' ? 'share' : 'positive' }),
  valueColumn('template', 'template_share', { scale: 'share' }),
  valueColumn('specificity', 'specificity', { dispensable: 4 }),
];

/** The figures that distinguish collapse from health. */
export function usualColumns(
  first: Pick<ShownMetrics, 'profile' | 'label' | 'values'>,
  permutations: number,
): readonly StepColumn[] {
  const { profile, label } = first;
  if (label === TEXT_LABEL) return texts(permutations, figureKeys(first));
  return [...(profile === 'strict' ? [state] : []), ...ofScores(profile, permutations)];
}

/** Rows that figures are means over: shown where not all are. */
export const rowsColumn = rows;

/** The column of a logged key. */
export function chosenColumn(key: string): StepColumn {
  const figure = (report: StepReport) => {
    const value = allFigures(report.record)[key];
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

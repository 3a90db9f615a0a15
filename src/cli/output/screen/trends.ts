// Draws the figures of one run as lines of bars over its steps, on the scales of all runs.

import { shortNumber } from '../../../checks/numbers.js';
import type { StepReport } from '../../../step/step-report.js';
import { type Look, plain } from '../text-style.js';
import { fitted, textWidth } from '../text-width.js';
import type { ShownMetrics } from './shown-metrics.js';
import { CHANCE, type Scale, sparkline } from './sparkline.js';
import type { StepColumn } from './step-columns.js';

/** Where each figure is drawn: one scale over all runs, so that what looks alike is alike. */
export class Scales {
  readonly #seen = new Map<string, { lowest: number; highest: number }>();

  note({ title }: StepColumn, value: number | undefined): void {
    if (value === undefined || !Number.isFinite(value)) return;
    const seen = this.#seen.get(title);
    if (seen === undefined) this.#seen.set(title, { lowest: value, highest: value });
    else {
      seen.lowest = Math.min(seen.lowest, value);
      seen.highest = Math.max(seen.highest, value);
    }
  }

  of({ title, scale }: StepColumn): Scale {
    const { lowest, highest } = this.#seen.get(title) ?? { lowest: 0, highest: 0 };
    if (scale === 'share') return { low: 0, high: 1 };
    return { low: scale === 'signed' ? Math.min(0, lowest) : 0, high: Math.max(0, highest) };
  }
}

interface Series {
  readonly column: StepColumn;
  readonly values: (number | undefined)[];
  chance: number | undefined;
}

const LEAST_BARS = 12;
const MOST_BARS = 120;
/** Names of metrics are long; bars shall have room. */
const MOST_LABEL = 36;
/** With more figures the scales would be longer than the trends. */
const MOST_SCALES = 4;

export class Trends {
  readonly #series = new Map<string, Series>();
  readonly #scales: Scales;
  #steps = 0;

  constructor(scales: Scales) {
    this.#scales = scales;
  }

  /** A step with the columns that it has; columns may come later, and those without a scale have no trend. */
  add(columns: Iterable<StepColumn>, report: StepReport, metrics: ShownMetrics): void {
    for (const column of columns) {
      if (column.figure === undefined || column.scale === undefined) continue;
      let series = this.#series.get(column.title);
      if (series === undefined) {
        series = { column, values: new Array<undefined>(this.#steps).fill(undefined), chance: undefined };
        this.#series.set(column.title, series);
      }
      const value = column.figure(report, metrics);
      this.#scales.note(column, value);
      series.values.push(value);
      series.chance = column.chance?.(metrics) ?? series.chance;
    }
    this.#steps++;
  }

  get labelWidth(): number {
    const drawn = this.#drawn();
    return Math.min(MOST_LABEL, Math.max(...drawn.map(({ column }) => textWidth(column.title)), 'verdicts'.length));
  }

  /** Number of columns of a line that have bars. */
  bars(width: number): number {
    // One more: an arrow in ASCII.
    const tail = Math.max(...this.#drawn().map(({ values }) => textWidth(firstToLast(values)) + 1));
    const room = width - this.labelWidth - tail - 6;
    return Math.min(this.#steps, MOST_BARS, Math.max(LEAST_BARS, room));
  }

  #drawn(): Series[] {
    return [...this.#series.values()].filter(({ values }) => values.some(isFigure));
  }

  /** Nothing if there is but one step. */
  lines({ unicode, width }: Look): string[] {
    if (this.#steps < 2) return [];
    const bars = this.bars(width);
    return this.#drawn().map(({ column, values, chance }) => {
      const label = fitted(column.title, this.labelWidth, '~');
      const blank = ' '.repeat(this.labelWidth - textWidth(label));
      const line = sparkline(values, bars, this.#scales.of(column), unicode, chance);
      const tail = firstToLast(values);
      return `  ${label}${blank}  ${line}  ${unicode ? tail : plain(tail)}`;
    });
  }

  /** `MI 0 to 1.88, retrieval 0 to 1 (╌ is chance)`. */
  scaleWords({ unicode }: Pick<Look, 'unicode'>): string {
    const drawn = this.#drawn();
    if (drawn.length > MOST_SCALES) return 'from 0, or its lowest where that is below, to its highest';
    return drawn
      .map(({ column, chance }) => {
        const { low, high } = this.#scales.of(column);
        const end = (value: number): string => (Number.isInteger(value) ? String(value) : shortNumber(value));
        const words = `${column.title} ${end(low)} to ${end(high)}`;
        return chance === undefined ? words : `${words} (${CHANCE[unicode ? 'unicode' : 'ascii']} is chance)`;
      })
      .join(', ');
  }
}

/** `1.25 → 0.201`. */
function firstToLast(values: readonly (number | undefined)[]): string {
  const finite = values.filter(isFigure);
  return `${shortNumber(finite[0])} → ${shortNumber(finite.at(-1))}`;
}

function isFigure(value: number | undefined): value is number {
  return value !== undefined && Number.isFinite(value);
}

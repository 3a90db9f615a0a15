// Draws small lines below a run for its environments: the course of I(X;Z) of each, those with an alarm first.

import { shortNumber } from '../../../checks/numbers.js';
import { printable } from '../../../checks/words.js';
import type { StepReport } from '../../../step/step-report.js';
import { type Look, plain } from '../text-style.js';
import { fitted, textWidth } from '../text-width.js';
import { sparkline } from './sparkline.js';
import { type Grade, paintedGlyph } from './state-marks.js';

interface EnvironmentSeries {
  /** MI, or its bound; undefined at steps without figures of it. */
  readonly values: (number | undefined)[];
  rows: number;
}

/** Environments that have a line. */
const MOST_LINES = 8;
const MOST_BARS = 60;
const LONGEST_NAME = 24;

export class EnvironmentLines {
  readonly #series = new Map<string, EnvironmentSeries>();
  #steps = 0;
  #grades = new Map<string, Grade>();

  add({ stepMetrics: metrics, texts, judgement }: StepReport): void {
    const environments = metrics?.environments ?? texts?.environments ?? [];
    for (const { name, rows, figures } of environments) {
      const { mi_seq_estimate: mi, mi_bound: bound } = figures?.values ?? {};
      let series = this.#series.get(name);
      if (series === undefined) {
        series = { values: new Array<undefined>(this.#steps).fill(undefined), rows: 0 };
        this.#series.set(name, series);
      }
      series.values.push(mi ?? bound);
      series.rows += rows;
    }
    this.#steps++;
    for (const { values } of this.#series.values()) if (values.length < this.#steps) values.push(undefined);
    if (judgement === undefined) return;
    this.#grades = new Map();
    // The most severe come first.
    for (const { severity, environment, environments: named = [] } of judgement.verdicts) {
      for (const name of environment === undefined ? named : [environment]) {
        if (severity !== 'info' && !this.#grades.has(name)) this.#grades.set(name, severity);
      }
    }
  }

  /** Nothing of a run of one. */
  lines(look: Look, most = MOST_LINES): string[] {
    if (this.#series.size < 2) return [];
    const all = [...this.#series].sort(
      ([a, one], [b, other]) =>
        Number(this.#grades.has(b)) - Number(this.#grades.has(a)) || other.rows - one.rows || (a < b ? -1 : 1),
    );
    const shown = all.slice(0, most);
    const { unicode, width, paint } = look;
    const names = shown.map(([name]) => fitted(printable(name), LONGEST_NAME, unicode ? '…' : '~'));
    const label = Math.max(...names.map(textWidth));
    const tails = shown.map(([, { values }]) => firstToLast(values));
    const bars = Math.min(this.#steps, MOST_BARS, Math.max(1, width - label - Math.max(...tails.map(textWidth)) - 11));
    const figures = shown.flatMap(([, { values }]) => values.filter(isFigure));
    const scale = { low: Math.min(0, ...figures), high: Math.max(0, ...figures) };
    const rest = all.length - shown.length;
    return [
      paint('dim', `  by environment: MI among its own prompts${this.#steps > 1 ? ', first to last' : ''}`),
      ...shown.map(([name, { values }], at) => {
        const mark = paintedGlyph(this.#grades.get(name) ?? 'fine', look);
        const blank = ' '.repeat(label - textWidth(names[at] as string));
        const line = this.#steps > 1 ? `${sparkline(values, bars, scale, unicode)}  ` : '';
        const tail = tails[at] as string;
        return `    ${mark} ${names[at]}${blank}  ${line}${unicode ? tail : plain(tail)}`;
      }),
      ...(rest > 0 ? [paint('dim', `    and ${rest} more without an alarm or smaller: --jsonl has all`)] : []),
    ];
  }
}

function firstToLast(values: readonly (number | undefined)[]): string {
  const known = values.filter(isFigure);
  return known.length > 1 ? `${shortNumber(known[0])} → ${shortNumber(known.at(-1))}` : shortNumber(known[0]);
}

function isFigure(value: number | undefined): value is number {
  return value !== undefined && Number.isFinite(value);
}

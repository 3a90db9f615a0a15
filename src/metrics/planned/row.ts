// One row's scored pairs -> its matched score and estimated marginals, what its figures would be under each scored label, and
// how its marginals change when a prompt is left out: as native/engine/inference/label_values.cpp has them from whole rows.
import { estimateLogTotal, LogSumWithout, type LogTotal, logAddExp, type StratumTerms } from './log-total.js';
import type { PlanLayout, PlannedRow } from './plan.js';

/** A scored prompt of a row; the own one is first. */
export interface ScoredPrompt {
  readonly signature: number;
  /** S, nats. */
  readonly score: number;
  /** Which stratum it was drawn from; −1: the own prompt. */
  readonly stratum: number;
  /** 1 / inclusion probability. */
  readonly expansion: number;
}

export interface ScoredRow {
  readonly planned: PlannedRow;
  readonly own: ScoredPrompt;
  readonly negatives: readonly ScoredPrompt[];
}

/**
 * By how much the negated log-mean-exp over all columns grows when one column is left out. Columns that were not scored all make
 * the same difference, by stratum; each of the scored ones makes its own.
 */
export interface Drops {
  /** By place in `negatives`. */
  readonly scored: readonly number[];
  /** By stratum. */
  readonly unscored: readonly number[];
  /** A column equal to the own one. */
  readonly twin: number;
}

/** Whole-row quantities at one temperature: 1 for sums S, the length for per-token means M. */
export interface RowMarginal {
  /** ln of the total over all columns, less ln P. */
  readonly total: LogTotal;
  readonly marginal: number;
  readonly drops: Drops;
}

const NOTHING = Number.NEGATIVE_INFINITY;

/** A row's log terms at one temperature (1: sums S; the length: per-token means M), with what is computed from them again and again. */
export interface RowTerms {
  /** ln of the own prompt's columns together. */
  readonly ownLog: number;
  readonly ownCount: number;
  readonly strata: readonly StratumTerms[];
  readonly sums: readonly LogSumWithout[];
  /** Columns drawn of each stratum. */
  readonly drawn: readonly number[];
}

export function rowTerms({ planned, own, negatives }: ScoredRow, layout: PlanLayout, temperature: number): RowTerms {
  const ownCount = layout.counts[own.signature] as number;
  let next = 0;
  const strata = planned.strata.map(({ size, columns }, h): StratumTerms => {
    const count = (planned.drawn[h] as Int32Array).length;
    const logs = new Float64Array(count);
    const counts = new Float64Array(count);
    for (let at = 0; at < count; at++) {
      const { signature, score } = negatives[next++] as ScoredPrompt;
      counts[at] = layout.counts[signature] as number;
      logs[at] = score / temperature + Math.log(counts[at] as number);
    }
    return { logs, columns: counts, totalColumns: columns, size };
  });
  return {
    ownLog: own.score / temperature + Math.log(ownCount),
    ownCount,
    strata,
    sums: strata.map(({ logs }) => new LogSumWithout(logs)),
    drawn: strata.map(({ columns }) => columns.reduce((sum, count) => sum + count, 0)),
  };
}

/** ln of a stratum's estimated total when one of its columns does not exist: a scored one (`at`), or an unscored one (−1). */
function logTotalWithout({ strata, sums, drawn }: RowTerms, h: number, at: number): number {
  const { logs, columns, totalColumns } = strata[h] as StratumTerms;
  const sum = sums[h] as LogSumWithout;
  const seen = drawn[h] as number;
  if (totalColumns < 2) return NOTHING;
  const left = Math.log(totalColumns - 1);
  if (at < 0) return sum.all + left - Math.log(seen);
  const count = columns[at] as number;
  if (count === 1) return seen === 1 ? NOTHING : sum.without(at) + left - Math.log(seen - 1);
  const fewer = Float64Array.from(logs);
  fewer[at] = (logs[at] as number) + Math.log((count - 1) / count);
  return new LogSumWithout(fewer).all + left - Math.log(seen - 1);
}

/** ln of each stratum's estimated total. */
function stratumLogs({ strata, sums, drawn }: RowTerms): number[] {
  return strata.map(({ totalColumns }, h) => {
    const { all } = sums[h] as LogSumWithout;
    return drawn[h] === totalColumns ? all : all + Math.log(totalColumns) - Math.log(drawn[h] as number);
  });
}

/** ln of all but stratum h, from `start`. */
function logOthers(totals: readonly number[], h: number, start: number): number {
  return totals.reduce((sum, total, i) => (i === h ? sum : logAddExp(sum, total)), start);
}

function dropsOf(terms: RowTerms, ownLog: number, columns: number): Drops {
  const { strata, ownCount } = terms;
  const totals = stratumLogs(terms);
  const whole = totals.reduce(logAddExp, ownLog);
  const ratio = Math.log(columns - 1) - Math.log(columns);
  const twin = ownCount > 1 ? totals.reduce(logAddExp, ownLog + Math.log((ownCount - 1) / ownCount)) : NOTHING;
  const scored: number[] = [];
  const unscored: number[] = [];
  strata.forEach(({ logs }, h) => {
    const others = logOthers(totals, h, ownLog);
    const drop = (at: number): number => whole - logAddExp(others, logTotalWithout(terms, h, at)) + ratio;
    for (let at = 0; at < logs.length; at++) scored.push(drop(at));
    unscored.push(drop(-1));
  });
  return { scored, unscored, twin: ownLog === NOTHING ? 0 : whole - twin + ratio };
}

/** The marginal over all `columns`. */
export function rowMarginal(terms: RowTerms, columns: number): RowMarginal {
  const total = estimateLogTotal(terms.ownLog, terms.strata);
  return { total, marginal: total.value - Math.log(columns), drops: dropsOf(terms, terms.ownLog, columns) };
}

/** The marginal over the columns of other prompts. NaN where there is no other. */
export function leaveOneOutMarginal(terms: RowTerms, columns: number): RowMarginal {
  const others = columns - terms.ownCount;
  const total = estimateLogTotal(NOTHING, terms.strata);
  return {
    total,
    marginal: others < 1 ? Number.NaN : total.value - Math.log(others),
    drops: dropsOf(terms, NOTHING, others),
  };
}

/** By label: own prompt first, then `negatives`. */
export interface LabelMarginals {
  /** Over all columns, corrected as the own label's is: as `RowMarginal.marginal`. */
  readonly all: readonly number[];
  /** Over the columns of other prompts. */
  readonly leaveOneOut: readonly number[];
}

/**
 * The row's marginals as they would have been estimated under each scored label. Own prompt and negative change places: the
 * label is known, the own prompt is one of the draws. With the own label's draws kept, a negative would be measured against a
 * mean that it is part of, and spreads would come out too small.
 */
export function labelMarginals(
  terms: RowTerms,
  columns: number,
  own: RowMarginal,
  leaveOneOut: RowMarginal,
): LabelMarginals {
  const { strata, sums, drawn, ownLog, ownCount } = terms;
  const totals = stratumLogs(terms);
  const correction = own.marginal - own.total.plain;
  const all = [own.marginal];
  const others = [leaveOneOut.marginal];
  strata.forEach(({ columns: counts, totalColumns, logs }, h) => {
    const elsewhere = logOthers(totals, h, NOTHING);
    for (let at = 0; at < logs.length; at++) {
      const count = counts[at] as number;
      const scale = Math.log(totalColumns + ownCount - count) - Math.log((drawn[h] as number) + ownCount - count);
      const foreign = logAddExp(elsewhere, logAddExp(ownLog, (sums[h] as LogSumWithout).without(at)) + scale);
      all.push(logAddExp(logs[at] as number, foreign) + correction);
      others.push(foreign - Math.log(columns - count));
    }
  });
  return { all, leaveOneOut: others };
}

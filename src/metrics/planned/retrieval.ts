// What a plan's pairs say about retrieval. Whether the own prompt is the best of all P cannot be estimated without bias from
// fewer: the draws tell how many of n others were better, and 1{none of N is better} is no combination of the chances of that
// (N + 1 conditions, n + 1 unknowns). What they do tell: bounds that are certain, and, without bias, how often the own prompt is
// the best of c candidates, itself and c − 1 of the others drawn at random, for c up to n + 1.
import type { PlanLayout } from './plan.js';
import type { ScoredRow } from './row.js';
import type { Interruptible } from './slices.js';

/** How many columns stand before the own prompt in a row, and how many nobody has scored. */
interface Standing {
  readonly ahead: number;
  readonly unseen: number;
}

/** First canonical column of each signature: a tie goes to the lower column. */
function firstColumns(layout: PlanLayout): Int32Array {
  const first = new Int32Array(layout.counts.length).fill(-1);
  layout.signatures.forEach((signature, column) => {
    if (first[signature] === -1) first[signature] = column;
  });
  return first;
}

function standingOf({ own, negatives, planned }: ScoredRow, layout: PlanLayout, first: Int32Array): Standing {
  const ownFirst = first[own.signature] as number;
  let ahead = 0;
  let seen = 0;
  for (const { signature, score } of negatives) {
    const columns = layout.counts[signature] as number;
    seen += columns;
    if (score > own.score) ahead += columns;
    else if (score === own.score) {
      for (let column = 0; column < ownFirst; column++) ahead += layout.signatures[column] === signature ? 1 : 0;
    }
  }
  const others = planned.strata.reduce((sum, { columns }) => sum + columns, 0);
  return { ahead, unseen: others - seen };
}

/** Shares of rows that are certain to be among the best k, and not certain to be beyond them. Equal if all is known. */
export function* retrievalBounds(
  rows: readonly ScoredRow[],
  layout: PlanLayout,
  ks: readonly number[],
): Interruptible<{ k: number; low: number; high: number }[]> {
  const first = firstColumns(layout);
  const standings: Standing[] = [];
  for (const row of rows) {
    standings.push(standingOf(row, layout, first));
    yield;
  }
  return ks.map((k) => ({
    k,
    low: standings.filter(({ ahead, unseen }) => ahead + unseen < k).length / rows.length,
    high: standings.filter(({ ahead }) => ahead < k).length / rows.length,
  }));
}

/** C(n − k, c) / C(n, c): c of n drawn, none of them among the k better ones. */
function noneBetter(n: number, better: number, c: number): number {
  let chance = 1;
  for (let i = 0; i < c; i++) chance *= Math.max(0, n - better - i) / (n - i);
  return chance;
}

/** P(j of c drawn without replacement are of the `kind` among `all`). */
function hypergeometric(all: number, kind: number, c: number, j: number): number {
  if (j < 0 || j > kind || c - j > all - kind) return 0;
  let chance = 1;
  // C(kind, j) C(all − kind, c − j) / C(all, c), factor by factor.
  for (let i = 0; i < j; i++) chance *= ((kind - i) * (c - i)) / ((i + 1) * (all - i));
  for (let i = 0; i < c - j; i++) chance *= (all - kind - i) / (all - j - i);
  return chance;
}

/**
 * For each row an unbiased estimate of the chance that its own prompt is the best of `candidates` different ones.
 * @returns [rows], each in [0, 1]; undefined if some row has too few negatives
 */
export function* bestOfCandidates(
  rows: readonly ScoredRow[],
  layout: PlanLayout,
  candidates: number,
): Interruptible<Float64Array | undefined> {
  const first = firstColumns(layout);
  const others = candidates - 1;
  const values = new Float64Array(rows.length);
  for (const [r, { planned, own, negatives }] of rows.entries()) {
    const kinds = planned.strata.map(({ size }, h) => {
      const drawn = negatives.filter(({ stratum }) => stratum === h);
      const better = drawn.filter(
        ({ score, signature }) =>
          score > own.score || (score === own.score && (first[signature] as number) < (first[own.signature] as number)),
      );
      return { size, drawn: drawn.length, better: better.length };
    });
    const [a, b] = kinds;
    const all = kinds.reduce((sum, { size }) => sum + size, 0);
    if (a === undefined || all < others) return undefined;
    let value = 0;
    for (let j = 0; j <= others; j++) {
      const weight = b === undefined ? (j === others ? 1 : 0) : hypergeometric(all, a.size, others, j);
      if (weight === 0) continue;
      if (j > a.drawn || others - j > (b?.drawn ?? 0)) return undefined;
      value +=
        weight * noneBetter(a.drawn, a.better, j) * (b === undefined ? 1 : noneBetter(b.drawn, b.better, others - j));
    }
    values[r] = Math.min(1, value);
    yield;
  }
  return values;
}

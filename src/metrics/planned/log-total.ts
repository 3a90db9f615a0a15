// A row's scored log terms -> the log of their total over all columns, with its bias and its sampling variance. The heart of
// cheaper scoring.
//
// A stratum of N prompts (C columns), n of them drawn: its total is estimated as C · Σ y / Σ c over those drawn, y = c · exp S
// and c the columns of a prompt. That is Horvitz–Thompson with weights N/n, normalised (Hájek 1971), which is the same where
// prompts differ, and exact where scores do not. The total is close to unbiased; its log is not (Jensen). What the log of k
// draws expects is smooth in 1/k, and subsets of the draws show it at k = n, n − 1, n − 2: it is extended to k = N, where
// nothing is left to draw. With two points that is the jackknife with finite-population correction, with three its second
// order (Schucany, Gray and Owen 1971). Where few columns carry most of the total and are mostly missed, that is not enough.
// `upper` errs to the other side: ln(1 + T/own) is shared out among the terms as y/T · ln(1 + T/own), each share weighted by N/n,
// with the term itself known and the rest estimated from the other draws. Exact where one term is all, and where all are equal.

/** The scored part of one stratum. */
export interface StratumTerms {
  /** ln(c · exp(S/T)), T the temperature, of each prompt drawn. */
  readonly logs: Float64Array;
  /** c of each. */
  readonly columns: Float64Array;
  /** C and N of the whole stratum. */
  readonly totalColumns: number;
  readonly size: number;
}

export interface LogTotal {
  /** Log of the estimated total as it is. */
  readonly plain: number;
  /** The same with its bias taken out; what to use. */
  readonly value: number;
  /** By how much the last order of correction moved it: of the size of the bias that remains, or larger. */
  readonly lastCorrection: number;
  /** An estimate that errs upwards where `value` errs downwards (too few draws); −∞ without an own prompt. */
  readonly upper: number;
  /** Variance of `value` over draws of negatives, by the jackknife. */
  readonly variance: number;
}

const NOTHING = Number.NEGATIVE_INFINITY;

/** Beyond so many draws a second order is not worth n² terms: the bias left is of order 1/n². */
const SECOND_ORDER_DRAWS = 32;

export function logAddExp(a: number, b: number): number {
  const high = a >= b ? a : b;
  const low = a >= b ? b : a;
  if (low === Number.NEGATIVE_INFINITY || high === Number.POSITIVE_INFINITY) return high;
  return high + Math.log1p(Math.exp(low - high));
}

/** ln Σ exp over all but up to two of the values. */
export class LogSumWithout {
  readonly #logs: Float64Array;
  readonly #top: number;
  readonly #terms: Float64Array;
  readonly #total: number;

  constructor(logs: Float64Array) {
    this.#logs = logs;
    this.#top = logs.reduce((top, log) => Math.max(top, log), Number.NEGATIVE_INFINITY);
    const finite = Number.isFinite(this.#top);
    this.#terms = logs.map((log) => (finite ? Math.exp(log - this.#top) : 0));
    this.#total = this.#terms.reduce((sum, term) => sum + term, 0);
  }

  get all(): number {
    return this.#top === Number.NEGATIVE_INFINITY ? this.#top : this.#top + Math.log(this.#total);
  }

  without(i: number, j = -1): number {
    if (this.#top === Number.NEGATIVE_INFINITY) return this.#top;
    const rest = this.#total - (this.#terms[i] as number) - (j < 0 ? 0 : (this.#terms[j] as number));
    if (rest > 0.5 * this.#total) return this.#top + Math.log(rest);
    // What cancels is summed anew.
    const logs = this.#logs;
    let top = Number.NEGATIVE_INFINITY;
    for (let at = 0; at < logs.length; at++) {
      if (at !== i && at !== j && (logs[at] as number) > top) top = logs[at] as number;
    }
    if (top === Number.NEGATIVE_INFINITY) return top;
    let sum = 0;
    for (let at = 0; at < logs.length; at++) {
      if (at !== i && at !== j) sum += Math.exp((logs[at] as number) - top);
    }
    return top + Math.log(sum);
  }
}

/** ln of a stratum's estimated total from its draws without i and j. */
class StratumLog {
  readonly #sums: LogSumWithout;
  readonly #columns: Float64Array;
  readonly #drawnColumns: number;
  readonly #logs: Float64Array;
  readonly #totalColumns: number;
  readonly #logColumns: number;
  readonly all: number;
  readonly draws: number;
  readonly size: number;

  constructor({ logs, columns, totalColumns, size }: StratumTerms) {
    this.#sums = new LogSumWithout(logs);
    this.#columns = columns;
    this.#drawnColumns = columns.reduce((sum, count) => sum + count, 0);
    this.#logs = logs;
    this.#totalColumns = totalColumns;
    this.#logColumns = Math.log(totalColumns);
    this.draws = logs.length;
    this.size = size;
    this.all = this.#drawnColumns === totalColumns ? this.#sums.all : this.#scaled(this.#sums.all, this.#drawnColumns);
  }

  #scaled(logSum: number, columns: number): number {
    return logSum + this.#logColumns - Math.log(columns);
  }

  logOf(i: number): number {
    return this.#logs[i] as number;
  }

  /** ln of the total of the columns other than those of draw i, from the other draws but j. */
  othersOf(i: number, j = -1): number {
    const left = this.#totalColumns - (this.#columns[i] as number);
    const drawn = this.#columnsWithout(i, j);
    return left === 0 || drawn === 0 ? NOTHING : this.#sums.without(i, j) + Math.log(left) - Math.log(drawn);
  }

  #columnsWithout(i: number, j: number): number {
    return this.#drawnColumns - (this.#columns[i] as number) - (j < 0 ? 0 : (this.#columns[j] as number));
  }

  without(i: number, j = -1): number {
    return this.#scaled(this.#sums.without(i, j), this.#columnsWithout(i, j));
  }
}

/**
 * @param ownLog ln of what is known without drawing (the own prompt's columns); −∞ where nothing is
 * @returns ln(exp(ownLog) + total of all strata), nats
 */
export function estimateLogTotal(ownLog: number, strata: readonly StratumTerms[]): LogTotal {
  const logs = strata.map((terms) => new StratumLog(terms));
  const rest = logs.map((_, h) =>
    logs.reduce((sum, other, at) => (at === h ? sum : logAddExp(sum, other.all)), ownLog),
  );
  const plain = logs.reduce((sum, { all }) => logAddExp(sum, all), ownLog);
  let value = plain;
  let lastCorrection = 0;
  let variance = 0;
  const firstOrder: number[][] = [];
  logs.forEach((stratum, h) => {
    const { draws: n, size } = stratum;
    firstOrder[h] = [];
    if (n === size || n < 2) return;
    const others = rest[h] as number;
    const missing = 1 - n / size;
    const ones = Array.from({ length: n }, (_, i) => logAddExp(others, stratum.without(i)));
    const one = mean(ones);
    // Where leaving draws out leaves nothing finite there is no telling the bias.
    if (!Number.isFinite(one)) return;
    firstOrder[h] = ones;
    const first = missing * (n - 1) * (plain - one);
    variance += (missing * (n - 1) * ones.reduce((sum, log) => sum + (log - one) ** 2, 0)) / n;
    const second = n >= 3 && n <= SECOND_ORDER_DRAWS ? secondOrder(stratum, others, plain, one) : Number.NaN;
    value += Number.isFinite(second) ? second : first;
    lastCorrection += Number.isFinite(second) ? second - first : first;
  });
  const [a, b] = logs;
  const [onesA = [], onesB = []] = firstOrder;
  if (a !== undefined && b !== undefined && onesA.length > 0 && onesB.length > 0) {
    const pairs = crossed(a, b, ownLog);
    if (Number.isFinite(pairs)) {
      const scale = (1 - a.draws / a.size) * (a.draws - 1) * (1 - b.draws / b.size) * (b.draws - 1);
      const mixed = scale * (plain - mean(onesA) - mean(onesB) + pairs);
      value += mixed;
      lastCorrection += mixed;
    }
  }
  const whole = logs.every(({ draws, size }) => draws === size);
  const upper = ownLog === Number.NEGATIVE_INFINITY ? ownLog : whole ? value : sharedOut(ownLog, logs);
  return { plain, value, lastCorrection, upper, variance };
}

/** `upper` of a LogTotal: first order of correction where that is cheap. */
function sharedOut(ownLog: number, strata: readonly StratumLog[]): number {
  const rest = strata.map((_, h) =>
    strata.reduce((sum, { all }, at) => (at === h ? sum : logAddExp(sum, all)), NOTHING),
  );
  let value = 0;
  strata.forEach((stratum, h) => {
    const { draws: n, size } = stratum;
    const others = rest[h] as number;
    const shares = (left: number): number => {
      let sum = 0;
      for (let s = 0; s < n; s++) if (s !== left) sum += shareOf(stratum, s, left, others, ownLog);
      return (sum * size) / (left < 0 ? n : n - 1);
    };
    const plain = shares(-1);
    value += plain;
    if (n < 3 || n === size || n > SECOND_ORDER_DRAWS) return;
    let one = 0;
    for (let left = 0; left < n; left++) one += shares(left) / n;
    if (Number.isFinite(one)) value += (1 - n / size) * (n - 1) * (plain - one);
  });
  return ownLog + value;
}

/** y/T · ln(1 + T/own) of one draw, without the draw `left`. */
function shareOf(stratum: StratumLog, s: number, left: number, others: number, ownLog: number): number {
  const log = stratum.logOf(s);
  if (log === NOTHING) return 0;
  const total = logAddExp(logAddExp(log, others), stratum.othersOf(s, left));
  const ratio = total - ownLog;
  const gain = ratio > 0 ? ratio + Math.log1p(Math.exp(-ratio)) : Math.log1p(Math.exp(ratio));
  return Math.exp(log - total) * gain;
}

/** The parabola in 1/k through the means at k = n, n − 1, n − 2, at k = N, less its value at n. */
function secondOrder(stratum: StratumLog, others: number, plain: number, one: number): number {
  const { draws: n, size } = stratum;
  let sum = 0;
  for (let i = 0; i < n; i++) for (let j = 0; j < i; j++) sum += logAddExp(others, stratum.without(i, j));
  const two = sum / ((n * (n - 1)) / 2);
  const [x, x0, x1, x2] = [1 / size, 1 / n, 1 / (n - 1), 1 / (n - 2)];
  const w1 = ((x - x0) * (x - x2)) / ((x1 - x0) * (x1 - x2));
  const w2 = ((x - x0) * (x - x1)) / ((x2 - x0) * (x2 - x1));
  return w1 * (one - plain) + w2 * (two - plain);
}

/** Mean over one draw left out of each of two strata. */
function crossed(a: StratumLog, b: StratumLog, ownLog: number): number {
  if (a.draws * b.draws > SECOND_ORDER_DRAWS ** 2) return Number.NaN;
  let sum = 0;
  for (let i = 0; i < a.draws; i++) {
    const known = logAddExp(ownLog, a.without(i));
    for (let j = 0; j < b.draws; j++) sum += logAddExp(known, b.without(j));
  }
  return sum / (a.draws * b.draws);
}

function mean(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0) / values.length;
}

// Correlates two figures over the steps of a run: Pearson and Spearman with 95% intervals.

/** A correlation with its interval. */
export interface Correlation {
  readonly estimate: number;
  readonly low: number;
  readonly high: number;
}

/** The correlation of two series, by value and by rank. */
export interface CorrelationPair {
  readonly pearson: Correlation;
  readonly spearman: Correlation;
  /** Steps where both figures are there. */
  readonly steps: number;
  /** As many independent steps would tell as much: neighbouring steps resemble each other. */
  readonly effectiveSteps: number;
}

const WIDTH_95 = 1.959963984540054;

/** Exponents of the powers of two that float64 has. */
const LEAST_EXPONENT = -1074;
const MOST_EXPONENT = 1023;

/** Fewer say nothing: Fisher's interval needs more than three. */
const FEWEST = 5;

/** @returns or in words why there is none */
export function correlate(xs: readonly (number | null)[], ys: readonly (number | null)[]): CorrelationPair | string {
  const pairs = xs.flatMap((x, at): [number, number][] => {
    const y = ys[at];
    return x === null || y === null || y === undefined ? [] : [[x, y]];
  });
  if (pairs.length < FEWEST) return `${pairs.length} steps have both figures; at least ${FEWEST} are needed`;
  const [x, y] = [pairs.map(([value]) => value), pairs.map(([, value]) => value)];
  if (x.every((value) => value === x[0]) || y.every((value) => value === y[0]))
    return 'one of the figures never changes';
  const likeness = neighbourCorrelation(x) * neighbourCorrelation(y);
  // Bartlett: two autocorrelated series agree by chance more easily than independent values do.
  const shrink = Math.max(0, likeness);
  const effective = Math.max(FEWEST - 1, (pairs.length * (1 - shrink)) / (1 + shrink));
  const pearson = product(x, y);
  const spearman = product(ranks(x), ranks(y));
  return {
    pearson: interval(pearson, 1 / Math.sqrt(effective - 3)),
    spearman: rankInterval(spearman, pairs.length, effective),
    steps: pairs.length,
    effectiveSteps: effective,
  };
}

/** Fisher's z. */
function interval(r: number, error: number): Correlation {
  if (Math.abs(r) >= 1) return { estimate: Math.sign(r), low: Math.sign(r), high: Math.sign(r) };
  const z = Math.atanh(r);
  return { estimate: r, low: Math.tanh(z - WIDTH_95 * error), high: Math.tanh(z + WIDTH_95 * error) };
}

/**
 * Bonett and Wright (2000). Ranks that agree fully do so by chance too, in one order of n!, where the formula gives an
 * interval of no width: then its other end is that of the next lower correlation that n ranks can have, 1 − 6 · 2 / (n
 * (n² − 1)).
 */
function rankInterval(r: number, steps: number, effective: number): Correlation {
  const most = 1 - 12 / (steps * (steps * steps - 1));
  const at = Math.min(most, Math.max(-most, r));
  const found = interval(at, Math.sqrt((1 + at ** 2 / 2) / (effective - 3)));
  if (at === r) return found;
  return r > 0 ? { estimate: r, low: found.low, high: 1 } : { estimate: r, low: -1, high: found.high };
}

function product(xs: readonly number[], ys: readonly number[]): number {
  const [x, y] = [nearOne(xs), nearOne(ys)];
  const middle = (values: readonly number[]): number => values.reduce((a, b) => a + b, 0) / values.length;
  const [mx, my] = [middle(x), middle(y)];
  let [xy, xx, yy] = [0, 0, 0];
  for (const [at, value] of x.entries()) {
    const [dx, dy] = [value - mx, (y[at] as number) - my];
    xy += dx * dy;
    xx += dx * dx;
    yy += dy * dy;
  }
  return xx === 0 || yy === 0 ? 0 : Math.min(1, Math.max(-1, xy / Math.sqrt(xx * yy)));
}

/**
 * In a power of two as the unit, which changes no bit of a correlation: fourth powers of figures beyond 1e77 have no
 * number, nor have those of figures within 1e-81.
 */
function nearOne(values: readonly number[]): readonly number[] {
  const size = values.reduce((largest, value) => Math.max(largest, Math.abs(value)), 0);
  if (size === 0) return values;
  const exponent = Math.floor(Math.log2(size));
  const unit = 2 ** Math.min(MOST_EXPONENT, Math.max(LEAST_EXPONENT, exponent));
  return values.map((value) => value / unit);
}

function neighbourCorrelation(values: readonly number[]): number {
  return product(values.slice(0, -1), values.slice(1));
}

/** From 1 on; equal values share the mean of their ranks. */
function ranks(values: readonly number[]): number[] {
  const order = values.map((_, at) => at).sort((a, b) => (values[a] as number) - (values[b] as number));
  const result = new Array<number>(values.length);
  for (let from = 0; from < order.length; ) {
    let to = from;
    while (to < order.length && values[order[to] as number] === values[order[from] as number]) to++;
    for (let at = from; at < to; at++) result[order[at] as number] = (from + to + 1) / 2;
    from = to;
  }
  return result;
}

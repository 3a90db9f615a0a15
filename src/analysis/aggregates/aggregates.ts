// The metrics of steps in, in any order and in any parts; what they sum up to over all of them out: counts, exact sums,
// extremes and quantiles. Merging is associative and commutative to the bit. What depends on the order of steps (moving
// averages, regimes, verdicts) has no place here: step/run.ts adds it when the order is known.
import { checkArray, checkObject } from '../../checks/argument-checks.js';
import { ArgumentError, StateError } from '../../checks/errors.js';
import { shown } from '../../checks/words.js';
import { ragenAverages } from '../../metrics/figures/ragen.js';
import { strictAverages } from '../../metrics/figures/strict.js';
import type { StepMetrics, StepSpread } from '../../metrics/step-metrics.js';
import type { TextMetrics } from '../../metrics/text-metrics.js';
import type { FilterView } from '../../step/step-measurement.js';
import { ExactSum } from './aggregate-sum.js';
import { type BucketJson, QuantileSketch } from './quantile-sketch.js';

/** What a metric was over some steps. */
export interface MetricSummary {
  /** Steps at which it is finite; the rest of the figures are over these, and missing where there is none. */
  readonly count: number;
  /** Rounded once, from the exact sum. */
  readonly mean?: number;
  readonly min?: number;
  readonly max?: number;
  /**
   * Quantiles: 5%, 25%, 50%, 75%, 95%, interpolated between steps; each step's value is off by at most 0.4% of itself.
   */
  readonly p5?: number;
  readonly p25?: number;
  readonly p50?: number;
  readonly p75?: number;
  readonly p95?: number;
  /** Steps at which it is NaN or infinite; left out where there is none. */
  readonly nonFinite?: number;
}

const QUANTILES = { p5: 0.05, p25: 0.25, p50: 0.5, p75: 0.75, p95: 0.95 } as const;

/** By metric; numbers are written as `stringifyLossless` does. */
export interface AggregatesJson {
  readonly [metric: string]: {
    /** NaN, +inf, −inf. */
    readonly nonFinite: readonly [number, number, number];
    readonly sum: string;
    /** Finite values: their number and extremes follow from it. */
    readonly sketch: readonly BucketJson[];
  };
}

const ZERO = { std: 0, stdSeq: 0 };
const NO_SPREAD: StepSpread = { current: ZERO, excess: { token: 0, seq: 0 }, floor: ZERO };

/** Unprefixed keys whose values depend on the steps before. */
const ORDER_DEPENDENT: ReadonlySet<string> = new Set(
  [strictAverages, ragenAverages].flatMap((averages) => Object.keys(averages(NO_SPREAD, ZERO))),
);

/** Keys that are remembered: there are more only where labels are made of steps' numbers. */
const MOST_KEYS = 4096;
const isOrderFreeByKey = new Map<string, boolean>();

/** Asked of every figure of every step, about some hundred keys. */
function isOrderFree(key: string): boolean {
  let known = isOrderFreeByKey.get(key);
  if (known === undefined) {
    known = !ORDER_DEPENDENT.has(key.slice(key.indexOf('/') + 1));
    if (isOrderFreeByKey.size < MOST_KEYS) isOrderFreeByKey.set(key, known);
  }
  return known;
}

/**
 * The logged metrics of a step that depend on nothing but the step: the same whether the run's averages are in them or
 * not.
 * @param step a report of `analyze`, or a measurement of a state
 * @throws {ArgumentError} for what is neither
 */
export function orderFreeMetrics(step: {
  readonly metrics: readonly StepMetrics[];
  readonly texts?: TextMetrics | undefined;
  readonly filter?: FilterView | undefined;
}): [key: string, value: number][] {
  checkObject(step, 'step');
  checkArray(step.metrics, 'step.metrics');
  const metrics: [string, number][] = [];
  const parts = step.metrics.map(({ logged }) => logged);
  if (step.texts !== undefined) parts.push(step.texts.logged);
  if (step.filter !== undefined) parts.push(step.filter.metrics);
  for (const [at, figures] of parts.entries()) {
    for (const key of Object.keys(figures)) {
      // Keys that all samples of a step have in common come once.
      if (!isOrderFree(key) || (at > 0 && hasAny(parts, at, key))) continue;
      metrics.push([key, figures[key] as number]);
    }
  }
  return metrics;
}

/** Whether one of the first `count` parts has it. */
function hasAny(parts: readonly Readonly<Record<string, number>>[], count: number, key: string): boolean {
  for (let at = 0; at < count; at++) if (Object.hasOwn(parts[at] as object, key)) return true;
  return false;
}

/** One metric over some steps. */
class MetricAggregate {
  readonly sum = new ExactSum();
  readonly sketch = new QuantileSketch();
  least = Number.POSITIVE_INFINITY;
  most = Number.NEGATIVE_INFINITY;
  nonFinite: [nan: number, above: number, below: number] = [0, 0, 0];

  add(value: number): void {
    if (Number.isFinite(value)) {
      this.sum.add(value);
      this.sketch.add(value);
      this.#extend(value + 0);
    } else {
      this.nonFinite[Number.isNaN(value) ? 0 : value > 0 ? 1 : 2]++;
    }
  }

  merge(other: MetricAggregate): void {
    this.sum.merge(other.sum);
    this.sketch.merge(other.sketch);
    this.#extend(other.least);
    this.#extend(other.most);
    for (const [kind, count] of other.nonFinite.entries()) this.nonFinite[kind as 0 | 1 | 2] += count;
  }

  #extend(value: number): void {
    // The identities of an empty aggregate extend nothing.
    if (value < this.least && Number.isFinite(value)) this.least = value;
    if (value > this.most && Number.isFinite(value)) this.most = value;
  }

  summary(): MetricSummary {
    const { count } = this.sketch;
    const nonFinite = this.nonFinite.reduce((a, b) => a + b, 0);
    const rest = nonFinite === 0 ? {} : { nonFinite };
    if (count === 0) return { count, ...rest };
    const values = this.sketch.quantiles(Object.values(QUANTILES));
    const quantiles = Object.fromEntries(Object.keys(QUANTILES).map((name, at) => [name, values[at] as number]));
    return { count, mean: this.sum.mean(count), min: this.least, max: this.most, ...quantiles, ...rest };
  }

  toJSON(): AggregatesJson[string] {
    return { nonFinite: this.nonFinite, sum: this.sum.toJSON(), sketch: this.sketch.toJSON() };
  }

  static from(json: unknown): MetricAggregate {
    const { nonFinite, sum, sketch } = (json ?? {}) as Partial<AggregatesJson[string]>;
    if (
      !Array.isArray(nonFinite) ||
      nonFinite.length !== 3 ||
      !nonFinite.every((n) => Number.isSafeInteger(n) && n >= 0)
    ) {
      throw new StateError('damaged aggregates: nonFinite must be three counts');
    }
    const aggregate = new MetricAggregate();
    aggregate.nonFinite = [...nonFinite] as [number, number, number];
    aggregate.sum.merge(ExactSum.from(sum));
    aggregate.sketch.merge(QuantileSketch.from(sketch));
    const [first] = sketch as BucketJson[];
    const last = (sketch as BucketJson[]).at(-1);
    if (first !== undefined && last !== undefined) {
      aggregate.#extend(typeof first === 'number' ? first : first[1]);
      aggregate.#extend(typeof last === 'number' ? last : (last.at(-1) as number));
    }
    return aggregate;
  }
}

/** Aggregates of every metric over some steps. */
export class Aggregates {
  readonly #metrics = new Map<string, MetricAggregate>();

  /**
   * Takes in one step: `orderFreeMetrics` of its measurement or its report, or any other figures of it.
   * @throws {ArgumentError} unless they are pairs of name and number; nothing is then taken in
   */
  add(metrics: Iterable<readonly [key: string, value: number]>): void {
    if (typeof Object(metrics)[Symbol.iterator] !== 'function') {
      throw new ArgumentError(
        'metrics',
        `got ${shown(metrics)}, expected pairs of name and value: orderFreeMetrics() gives them`,
      );
    }
    const pairs = Array.from(metrics);
    // All are looked at before any counts.
    for (const [at, pair] of pairs.entries()) {
      if (Array.isArray(pair) && typeof pair[0] === 'string' && typeof pair[1] === 'number') continue;
      throw new ArgumentError(`metrics[${at}]`, `got ${shown(pair)}, expected a name and a number`);
    }
    for (const [key, value] of pairs) this.#metric(key).add(value);
  }

  /** Takes in the steps of `other`, which must not be among those already here. */
  merge(other: Aggregates): void {
    if (!(other instanceof Aggregates)) {
      throw new ArgumentError(
        'other',
        `got ${shown(other)}, expected Aggregates: Aggregates.from() makes them of saved ones`,
      );
    }
    for (const [key, aggregate] of other.#metrics) this.#metric(key).merge(aggregate);
  }

  #metric(key: string): MetricAggregate {
    let aggregate = this.#metrics.get(key);
    if (aggregate === undefined) {
      aggregate = new MetricAggregate();
      this.#metrics.set(key, aggregate);
    }
    return aggregate;
  }

  /**
   * What each metric was, by key in the order of code units: the same for the same steps in any order.
   * @param chosen which metrics to give; default all
   */
  summary(chosen: (key: string) => boolean = () => true): Record<string, MetricSummary> {
    const keys = [...this.#metrics.keys()].filter(chosen).sort();
    return Object.fromEntries(keys.map((key) => [key, this.#metric(key).summary()]));
  }

  /** Everything, exactly: plain JSON, from which `from` goes on to the bit. */
  toJSON(): AggregatesJson {
    return Object.fromEntries([...this.#metrics.keys()].sort().map((key) => [key, this.#metric(key).toJSON()]));
  }

  /**
   * Goes on where `toJSON` was called.
   * @throws {StateError} if `json` is not what `toJSON` gave
   */
  static from(json: unknown): Aggregates {
    if (typeof json !== 'object' || json === null || Array.isArray(json)) {
      throw new StateError('damaged aggregates: expected an object by metric');
    }
    const aggregates = new Aggregates();
    for (const [key, value] of Object.entries(json)) aggregates.#metrics.set(key, MetricAggregate.from(value));
    return aggregates;
  }
}

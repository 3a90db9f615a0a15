// Summarises the metrics of steps in any order and in parts: counts, exact sums, extremes, quantiles; merging is
// associative and commutative to the bit. What depends on the order of steps is in step/run.ts.
import { metricsOnce } from '../../filter/filter-metrics.js';
import { AVERAGED_KEYS } from '../../metrics/figures/step-figures.js';
import type { StepMetrics } from '../../metrics/step-metrics.js';
import type { TextMetrics } from '../../metrics/text-metrics.js';
import type { FilterView } from '../../step/step-measurement.js';
import { ExactSum } from './aggregate-sum.js';
import { QuantileSketch } from './quantile-sketch.js';

/** What a metric was over some steps. */
export interface MetricSummary {
  /** Steps at which it is finite; the rest of the figures are over these, and missing if there is none. */
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
  /** Steps at which it is NaN or infinite; left out if there is none. */
  readonly nonFinite?: number;
}

const QUANTILES = { p5: 0.05, p25: 0.25, p50: 0.5, p75: 0.75, p95: 0.95 } as const;

/** Unprefixed keys whose values depend on the steps before. */
const ORDER_DEPENDENT: ReadonlySet<string> = new Set(AVERAGED_KEYS);

/** Keys that are remembered: there are more only if labels are made of steps' numbers. */
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
 */
export function orderFreeMetrics(step: {
  readonly metrics: readonly StepMetrics[];
  readonly texts?: TextMetrics | undefined;
  readonly filter?: FilterView | undefined;
}): [key: string, value: number][] {
  const metrics: [string, number][] = [];
  const parts = step.metrics.map(({ logged }) => logged);
  if (step.texts !== undefined) parts.push(step.texts.logged);
  const isOfReference = step.metrics[0]?.profile === 'ragen';
  if (step.filter !== undefined) parts.push(isOfReference ? step.filter.metrics : metricsOnce(step.filter.metrics));
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
}

/** Aggregates of every metric over some steps. */
export class Aggregates {
  readonly #metrics = new Map<string, MetricAggregate>();

  /**
   * Takes in one step: `orderFreeMetrics` of its measurement or its report, or any other figures of it.
   */
  add(metrics: Iterable<readonly [key: string, value: number]>): void {
    for (const [key, value] of metrics) this.#metric(key).add(value);
  }

  /** Takes in the steps of `other`, which must not be among those already here. */
  merge(other: Aggregates): void {
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
}

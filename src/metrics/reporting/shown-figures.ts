// Lists the figures that a report, a sink and a dashboard show, with their names: read off the figures' entries.
import type { Companion, Gauge, NamedFigure } from '../figures/figure.js';

/** Endings of a figure's name in a report for its companions. */
const IN_REPORT: Readonly<Record<Companion, string>> = {
  batch_low: 'low',
  batch_high: 'high',
  population_low: 'population_low',
  population_high: 'population_high',
  p_value: 'p',
};

/** [name in the report, key] of the figures that it shows, each followed by its companions. */
export function reportKeys(figures: readonly NamedFigure[]): [name: string, key: string][] {
  return figures.flatMap(({ key, shown: { report, companions = [] } = {} }) =>
    report === undefined
      ? []
      : [
          [report, key],
          ...companions.map((name): [string, string] => [`${report}_${IN_REPORT[name]}`, `${key}_${name}`]),
        ],
  );
}

/** Keys of the few figures that go to a sink which was not asked for all, and of their companions. */
export function sinkKeys(figures: readonly NamedFigure[]): string[] {
  return figures.flatMap(({ key, shown: { sinks, companions = [] } = {} }) =>
    sinks === undefined ? [] : [key, ...companions.map((name) => `${key}_${name}`)],
  );
}

/** [key, what it is in Prometheus], each figure followed by its companions. */
export function gaugesOf(figures: readonly NamedFigure[]): [key: string, Gauge][] {
  return figures.flatMap(({ key, shown: { gauge, gauges = {} } = {} }) => [
    ...(gauge === undefined ? [] : [[key, gauge] as [string, Gauge]]),
    ...Object.entries(gauges).map(([name, of]): [string, Gauge] => [`${key}_${name}`, of]),
  ]);
}

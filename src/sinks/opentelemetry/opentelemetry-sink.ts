// Feeds instruments of OpenTelemetry with reports; its SDK sends them wherever it is configured to (OTLP). The meter is
// the caller's: nothing of OpenTelemetry is imported here.
import { ArgumentError } from '../../checks/errors.js';
import { shown } from '../../checks/words.js';
import type { Sink } from '../../monitor/sinks/sink.js';
import type { StepReport } from '../../step/step-report.js';
import { LastFigures } from '../prometheus/last-figures.js';
import { METRIC_TABLE } from '../prometheus/metric-table.js';

/** What a callback of an observable instrument is given. */
export interface OpenTelemetryResult {
  observe(value: number, attributes?: Readonly<Record<string, string>>): void;
}

/** An observable instrument of `@opentelemetry/api`, as far as it is used here. */
export interface OpenTelemetryInstrument {
  addCallback(callback: (result: OpenTelemetryResult) => void): void;
}

/** A `Meter` of `@opentelemetry/api`, as far as it is used here. */
export interface OpenTelemetryMeter {
  createObservableGauge(name: string, options?: { description?: string }): OpenTelemetryInstrument;
  createObservableCounter(name: string, options?: { description?: string }): OpenTelemetryInstrument;
}

/** Without a unit and `_total`, which converters of OTLP to Prometheus' text add. */
const nameOf = (name: string): string => name.replace(/^collapsar_/, 'collapsar.').replace(/_total$/, '');

/**
 * A sink of the figures that Prometheus gets (docs/guide/dashboards.md), as instruments `collapsar.*` of a meter:
 * `collapsar_mi_nats` is `collapsar.mi_nats`, labels are attributes. Each export has the last known value of each.
 * @param meter of `@opentelemetry/api`; its provider sends
 * @throws {ArgumentError} if it is not a meter
 * @example
 * import { Monitor } from 'collapsar';
 * import { type OpenTelemetryMeter, openTelemetrySink } from 'collapsar/sinks';
 *
 * declare const meter: OpenTelemetryMeter; // metrics.getMeter('trainer') of @opentelemetry/api
 * const monitor = new Monitor({ sinks: [openTelemetrySink(meter)], run: 'grpo-7b' });
 */
export function openTelemetrySink(meter: OpenTelemetryMeter): Sink {
  if (typeof meter?.createObservableGauge !== 'function' || typeof meter.createObservableCounter !== 'function') {
    throw new ArgumentError(
      'meter',
      `got ${shown(meter)}, expected a Meter: metrics.getMeter(…) of @opentelemetry/api`,
    );
  }
  const figures = new LastFigures();
  for (const row of METRIC_TABLE) {
    const { type, help: description, labels: names } = row;
    const name = nameOf(row.name);
    const instrument =
      type === 'counter'
        ? meter.createObservableCounter(name, { description })
        : meter.createObservableGauge(name, { description });
    instrument.addCallback((result) => {
      for (const { labels, value } of figures.of(row)) {
        // A gauge that is not a number is none.
        if (!Number.isFinite(value)) continue;
        result.observe(value, Object.fromEntries(names.map((label, at) => [label, labels[at] as string])));
      }
    });
  }
  return {
    async step(report: StepReport): Promise<void> {
      figures.take(report);
    },
    // What the last step said is exported for as long as the meter's provider is there.
    async close(): Promise<void> {},
  };
}

// The sink on a meter of OpenTelemetry's SDK, and what it would export.
import type { Meter } from '@opentelemetry/api';
import {
  AggregationTemporality,
  InMemoryMetricExporter,
  MeterProvider,
  PeriodicExportingMetricReader,
} from '@opentelemetry/sdk-metrics';
import { type OpenTelemetryMeter, openTelemetrySink } from '../../src/exports/sinks.js';

export function openTelemetry() {
  const exporter = new InMemoryMetricExporter(AggregationTemporality.CUMULATIVE);
  const provider = new MeterProvider({
    readers: [new PeriodicExportingMetricReader({ exporter, exportIntervalMillis: 3_600_000 })],
  });
  const meter: Meter = provider.getMeter('trainer');
  /** What was exported last: name, kind, and a line of Prometheus for each point. */
  const exported = async () => {
    exporter.reset();
    await provider.forceFlush();
    return exporter.getMetrics().flatMap(({ scopeMetrics }) => scopeMetrics.flatMap(({ metrics }) => metrics));
  };
  // A real meter is what the sink asks for: the assignment is part of the test.
  return { sink: openTelemetrySink(meter satisfies OpenTelemetryMeter), exported, provider };
}

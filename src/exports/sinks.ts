/**
 * `collapsar/sinks`: where a monitor's reports go besides: TensorBoard, Prometheus, MLflow and others by name, or a
 * meter of OpenTelemetry.
 * @module collapsar/sinks
 */
export { openSink } from '../sinks/open-sink.js';
export { type OpenTelemetryMeter, openTelemetrySink } from '../sinks/opentelemetry/opentelemetry-sink.js';
export type { SinkMetrics } from '../sinks/page-keys.js';

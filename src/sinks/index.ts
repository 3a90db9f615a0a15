// What `collapsar` exports of this folder.
export type { Sink } from '../monitor/sinks/sink.js';
export { openSink } from './open-sink.js';
export {
  type OpenTelemetryInstrument,
  type OpenTelemetryMeter,
  type OpenTelemetryResult,
  openTelemetrySink,
} from './opentelemetry/opentelemetry-sink.js';
export type { SinkMetrics } from './page-keys.js';

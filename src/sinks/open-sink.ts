// Opens a sink from `NAME:WHERE`.
import { ArgumentError } from '../checks/errors.js';
import { is } from '../checks/options.js';
import { shown } from '../checks/words.js';
import type { Sink } from '../monitor/sinks/sink.js';
import { JsonLinesSink, LINE_SHAPES } from './lines/json-lines-sink.js';
import { ResultsSink } from './lines/results-sink.js';
import type { SinkMetrics } from './page-keys.js';
import { TextfileSink } from './prometheus/textfile-sink.js';
import { MlflowSink } from './servers/mlflow-sink.js';
import { TrackioSink } from './servers/trackio-sink.js';
import { TensorBoardSink } from './tensorboard/tensorboard-sink.js';

const OPENERS: Readonly<Record<string, (where: string, which: SinkMetrics) => Sink>> = {
  tensorboard: (folder, which) => new TensorBoardSink(folder, which),
  prometheus: (path) => new TextfileSink(path),
  trackio: (server, which) => new TrackioSink(server, which),
  mlflow: (server, which) => new MlflowSink(server, which),
  'prime-rl': (folder, which) => new JsonLinesSink(folder, LINE_SHAPES['prime-rl'], which),
  results: (folder) => new ResultsSink(folder),
  verl: (folder, which) => new JsonLinesSink(folder, LINE_SHAPES.verl, which),
};

/** Names allowed before the colon. */
export const SINK_NAMES: readonly string[] = Object.keys(OPENERS);

/**
 * A sink by its name and place, as `analyze --to` takes them (docs/guide/dashboards.md). Nothing is written, and no
 * server is asked, before the first step.
 * @param metrics `page` (default): the 24 figures of the page; `all`: every figure
 * @throws {ArgumentError} for an unknown name, or without a place
 * @example
 * import { Monitor } from 'collapsar';
 * import { openSink } from 'collapsar/sinks';
 *
 * const monitor = new Monitor({ sinks: [openSink('tensorboard:runs')], run: 'grpo-7b' });
 */
export function openSink(to: string, metrics: SinkMetrics = 'page'): Sink {
  const [, name = '', where = ''] = (typeof to === 'string' && ADDRESS.exec(to)) || [];
  const open = Object.hasOwn(OPENERS, name) ? OPENERS[name] : undefined;
  if (open === undefined) {
    throw new ArgumentError('to', `got ${shown(to)}, expected NAME:WHERE, where NAME is ${SINK_NAMES.join(', ')}`);
  }
  is.oneOf(['page', 'all'])(metrics, 'metrics');
  return open(where, metrics);
}

const ADDRESS = /^([a-z-]+):(.+)$/s;

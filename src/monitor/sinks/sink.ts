// Interface of a sink, to which reports go: a dashboard, a file.
import type { StepReport } from '../../step/step-report.js';

/**
 * A destination of reports. A sink that rejects is warned about once; training continues.
 * @example
 * import { Monitor, type Sink } from 'collapsar';
 *
 * const printing: Sink = {
 *   step: async ({ run, step, metrics }) => console.log(run, step, metrics['text/mi_bound']),
 *   close: async () => {},
 * };
 * const monitor = new Monitor({ sinks: [printing], run: 'grpo-7b' });
 */
export interface Sink {
  /** Whether it reads `prompts`, `matrix` or `excerpts`. Where no sink does, they are not computed. */
  readonly readsPrompts?: boolean;
  /** Steps of a run come by rising number, and the next one only when this has settled. */
  step(report: StepReport): Promise<void>;
  /** After the last step: writes what is held back. */
  close(): Promise<void>;
}

// Whole steps in, reports out: as an async iterable and as a Web Stream, both no faster than they are read.

import type { WholeScores } from './collected-scores.js';
import type { MonitorReport } from './monitor-report.js';
import type { MonitorStep } from './monitor-step.js';
import { optionsObject } from './option-checks.js';
import type { StepLabels } from './step-labels.js';
import type { StepOutcomes } from './step-outcomes.js';

/** One step with all that is known of it. */
export interface MonitorInput {
  readonly step: number;
  readonly labels: StepLabels;
  /**
   * The cross-scores, or a function that scores the step (`step.pairs()`, `step.score()`); asked only of a step that is due.
   */
  readonly scores?: WholeScores | ((step: MonitorStep) => void | Promise<void>) | undefined;
  readonly outcomes?: StepOutcomes | undefined;
}

/** What streams need of a Monitor. */
interface StepOpener {
  step(step: number, labels: StepLabels): MonitorStep;
}

export async function* reportsOf(
  monitor: StepOpener,
  source: AsyncIterable<MonitorInput> | Iterable<MonitorInput>,
): AsyncGenerator<MonitorReport, void, undefined> {
  for await (const input of source) yield await reportOf(monitor, input);
}

export function reportStream(monitor: StepOpener): TransformStream<MonitorInput, MonitorReport> {
  return new TransformStream<MonitorInput, MonitorReport>(
    {
      async transform(input, controller) {
        controller.enqueue(await reportOf(monitor, input));
      },
    },
    { highWaterMark: 1 },
    // Nothing is computed ahead of the reader.
    { highWaterMark: 0 },
  );
}

async function reportOf(monitor: StepOpener, input: MonitorInput): Promise<MonitorReport> {
  optionsObject(input, 'input');
  const step = monitor.step(input.step, input.labels);
  if (step.due) {
    if (typeof input.scores === 'function') await input.scores(step);
    else if (input.scores !== undefined) await step.scoreAll(input.scores);
  }
  return step.finish(input.outcomes);
}

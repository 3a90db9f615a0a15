// Reports as a Web Stream: computed when they are asked for, and no sooner.
import { ReadableStream } from 'node:stream/web';
import type { StepReport } from '../step/step-report.js';
import { type AnalyzeOptions, analyze, checkAnalysis } from './analyze.js';
import type { StepSource } from './measuring/step-source.js';

/**
 * `analyze` as a Web Stream. Nothing is asked of the source before the first read; cancelling the stream ends the
 * analysis.
 * @returns reports by run, then step; the stream fails with what `analyze` throws
 * @throws {ArgumentError} at once for a bad argument
 */
export function analysisStream(source: StepSource, options: AnalyzeOptions = {}): ReadableStream<StepReport> {
  checkAnalysis(source, options);
  const ending = new AbortController();
  const signal = options.signal ? AbortSignal.any([options.signal, ending.signal]) : ending.signal;
  const reports = analyze(source, { ...options, signal });
  return new ReadableStream<StepReport>(
    {
      async pull(controller) {
        const { done, value } = await reports.next();
        if (done) controller.close();
        else controller.enqueue(value);
      },
      async cancel(reason) {
        ending.abort(reason ?? new Error('the stream of reports was cancelled'));
        await reports.return();
      },
    },
    { highWaterMark: 0 },
  );
}

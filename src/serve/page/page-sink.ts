// A sink whose place is the live page: what a monitor reports is on it at once.
import type { Sink } from '../../monitor/sinks/sink.js';
import type { StepReport } from '../../step/step-report.js';
import type { PageServer } from './page-server.js';

export class PageSink implements Sink {
  readonly readsPrompts = true;
  readonly #page: PageServer;
  /** By the name that it was given: its last step, and how often it has begun. */
  readonly #runs = new Map<string, { readonly step: number; readonly begun: number }>();

  /** @param page is not closed with the sink: it outlives monitors */
  constructor(page: PageServer) {
    this.#page = page;
  }

  async step(report: StepReport): Promise<void> {
    const before = this.#runs.get(report.run);
    // An axis of steps does not go back: a run that was restored, or another one of its name, starts again beside it.
    const begun = before === undefined ? 1 : before.begun + Number(report.step <= before.step);
    this.#runs.set(report.run, { step: report.step, begun });
    const run = begun === 1 ? report.run : `${report.run} (${begun})`;
    this.#page.add({ ...report, run, record: { ...report.record, run } });
  }

  async close(): Promise<void> {}
}

// Writes reports like `analyze --out`, a folder per run, for `collapsar report`: curves, verdicts and gradients of a
// run that has no log.
import { join } from 'node:path';
import { packageVersion } from '../../checks/package-version.js';
import { AtomicFile } from '../../logs/stores/atomic-file.js';
import type { Sink } from '../../monitor/sinks/sink.js';
import type { StepReport } from '../../step/step-report.js';
import { fileNameOf } from '../run-file.js';
import { JsonLinesSink, type LineShape } from './json-lines-sink.js';

const RECORDS: LineShape = {
  path: (folder, run) => join(folder, fileNameOf(run), 'metrics.jsonl'),
  line: ({ record }) => record,
};

/** Every figure, whatever is asked of other sinks. Only the live page has prompts and heat maps. */
export class ResultsSink implements Sink {
  readonly #folder: string;
  readonly #records: JsonLinesSink;
  /** By run: what its summary is made of. */
  readonly #runs = new Map<string, Pick<StepReport, 'directory' | 'summary'>>();

  constructor(folder: string) {
    this.#folder = folder;
    this.#records = new JsonLinesSink(folder, RECORDS);
  }

  async step(report: StepReport): Promise<void> {
    await this.#records.step(report);
    const isNew = !this.#runs.has(report.run);
    this.#runs.set(report.run, report);
    // A process that is killed leaves results, too.
    if (isNew) await this.#summarize(report.run);
  }

  async close(): Promise<void> {
    for (const run of this.#runs.keys()) await this.#summarize(run);
  }

  async #summarize(run: string): Promise<void> {
    const { directory, summary: judge } = this.#runs.get(run) as StepReport;
    const judged = judge?.();
    const summary = { collapsar: packageVersion(), runs: [{ run, directory, ...(judged && { judged }) }] };
    const file = await AtomicFile.open(join(this.#folder, fileNameOf(run)), 'summary.json');
    try {
      await file.write(`${JSON.stringify(summary, null, 2)}\n`);
      await file.prepare();
      await file.place();
    } catch (error) {
      await file.discard();
      throw error;
    }
  }
}

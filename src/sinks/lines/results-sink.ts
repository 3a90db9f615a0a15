// Reports -> what `analyze --out` writes of logs, a folder a run, which `collapsar report` reads: the curves, verdicts
// and gradients of a run that nobody logged.
import { join } from 'node:path';
import { packageVersion } from '../../checks/package-version.js';
import { AtomicFile } from '../../logs/stores/atomic-file.js';
import type { Sink, SinkReport } from '../../monitor/sinks/sink.js';
import { recordOf } from '../record-of-report.js';
import { fileNameOf } from '../run-file.js';
import { JsonLinesSink, type LineShape } from './json-lines-sink.js';

/** Of every record: the run has no files. */
const PLACE = 'monitor';

const RECORDS: LineShape = {
  path: (folder, run) => join(folder, fileNameOf(run), 'metrics.jsonl'),
  line: (report) => recordOf(report, `${PLACE}/step`),
};

/** Every figure, whatever is asked of other sinks. Prompts and heat maps are those of the live page alone. */
export class ResultsSink implements Sink {
  readonly #folder: string;
  readonly #records: JsonLinesSink;
  /** By run: what its summary is made of. */
  readonly #runs = new Map<string, SinkReport['summary']>();

  constructor(folder: string) {
    this.#folder = folder;
    this.#records = new JsonLinesSink(folder, RECORDS);
  }

  async step(report: SinkReport): Promise<void> {
    await this.#records.step(report);
    const isNew = !this.#runs.has(report.run);
    this.#runs.set(report.run, report.summary);
    // A process that is killed leaves results, too.
    if (isNew) await this.#summarize(report.run);
  }

  async close(): Promise<void> {
    for (const run of this.#runs.keys()) await this.#summarize(run);
  }

  async #summarize(run: string): Promise<void> {
    const judged = this.#runs.get(run)?.();
    const summary = { collapsar: packageVersion(), runs: [{ run, directory: PLACE, ...(judged && { judged }) }] };
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

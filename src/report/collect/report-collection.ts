// Records of steps as they come, from results on disk or from an analysis that is running -> a report, whole or only
// what is new.
import type { StepRecord } from '../../analysis/step-report.js';
import type { RunSummary } from '../../verdicts/run-summary.js';
import type { Matrix, Provenance, Report } from '../report.js';
import type { PromptRow } from './prompt-columns.js';
import { RunCollection } from './run-collection.js';

/** A run is a name in a folder. */
type RunPlace = Pick<StepRecord, 'run' | 'file'>;

export class ReportCollection {
  readonly #provenance: Provenance;
  readonly #runs: RunCollection[] = [];
  /** A cursor of another collection (a server that was started anew) is none of this one's. */
  readonly #mark: string;

  constructor(provenance: Provenance, mark = '') {
    this.#provenance = provenance;
    this.#mark = mark;
  }

  /** @param summary the run's verdicts and correlations so far, called when a report is asked for */
  add(record: StepRecord, summary?: () => RunSummary): void {
    let run = this.#runs.find((known) => known.isOf(record));
    if (run === undefined) {
      run = new RunCollection(record);
      this.#runs.push(run);
    }
    run.add(record, summary);
  }

  addPrompt(name: string, row: PromptRow): void {
    this.named(name)?.addPrompt(row);
  }

  addMatrix(name: string, matrix: Matrix): void {
    this.named(name)?.matrices.push(matrix);
  }

  summarize(place: RunPlace, summary: RunSummary): void {
    this.#runs.find((known) => known.isOf(place))?.summarize(summary);
  }

  /** The first of this name: tables of prompts have no folder. */
  private named(name: string): RunCollection | undefined {
    return this.#runs.find((run) => run.name === name);
  }

  /** What `report(cursor)` takes to give what comes after now. */
  get cursor(): string {
    return `${this.#mark}:${this.#runs.map(({ count }) => count).join('.')}`;
  }

  /**
   * Runs in the order in which they came.
   * @param after cursor of an earlier report; all steps where it is none of this collection's
   */
  report(after = ''): Report {
    const [mark, counts = ''] = splitAtLast(after, ':');
    const isOurs = after !== '' && mark === this.#mark;
    const from = isOurs ? counts.split('.').map(Number) : [];
    return {
      head: { after: isOurs ? after : '', cursor: this.cursor, provenance: this.#provenance, thinned: [] },
      runs: this.#runs.map((run, at) => run.data(from[at] ?? 0)),
    };
  }
}

function splitAtLast(text: string, mark: string): [string, string] {
  const at = text.lastIndexOf(mark);
  return [text.slice(0, Math.max(0, at)), text.slice(at + 1)];
}

// Collects records of steps from results on disk or a running analysis into a report, whole or only what is new.
import type { StepRecord } from '../../step/step-record.js';
import type { RunSummary } from '../../verdicts/run-summary.js';
import type { Matrix, Provenance, Report, StepTexts } from '../report.js';
import type { PromptRow } from './prompt-columns.js';
import { RunCollection } from './run-collection.js';

/** A run is a name in a folder. */
type RunPlace = Pick<StepRecord, 'run' | 'file'>;

export class ReportCollection {
  readonly #provenance: Provenance;
  readonly #runs: RunCollection[] = [];
  /** Distinguishes this collection's cursors from those of another one (a server that was restarted). */
  readonly #mark: string;
  readonly #mostSteps: number | undefined;

  /** @param mostSteps of a run whose prompts and matrices are kept; default: all */
  constructor(provenance: Provenance, mark = '', mostSteps?: number) {
    this.#provenance = provenance;
    this.#mark = mark;
    this.#mostSteps = mostSteps;
  }

  /** @param summary the run's verdicts and correlations so far, called when a report is asked for */
  add(record: StepRecord, summary?: () => RunSummary): void {
    let run = this.#runs.find((known) => known.isOf(record));
    if (run === undefined) {
      run = new RunCollection(record, this.#mostSteps);
      this.#runs.push(run);
    }
    run.add(record, summary);
  }

  addPrompt(run: string | RunPlace, row: PromptRow): void {
    this.found(run)?.addPrompt(row);
  }

  addMatrix(run: string | RunPlace, matrix: Matrix): void {
    this.found(run)?.addMatrix(matrix);
  }

  addTexts(run: string | RunPlace, texts: StepTexts): void {
    this.found(run)?.addTexts(texts);
  }

  /** Of a step whose matrix is kept. */
  matrix(run: string, step: number): Matrix | undefined {
    return this.found(run)?.matrices.find((matrix) => matrix.step === step);
  }

  summarize(place: RunPlace, summary: RunSummary): void {
    this.#runs.find((known) => known.isOf(place))?.summarize(summary);
  }

  /** By name only, the first run of this name: tables of prompts have no folder. */
  private found(run: string | RunPlace): RunCollection | undefined {
    return this.#runs.find((known) => (typeof run === 'string' ? known.name === run : known.isOf(run)));
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
    const known = this.known(after);
    const from = countsOf(known);
    return {
      head: { after: known, cursor: this.cursor, provenance: this.#provenance, thinned: [] },
      runs: this.#runs.map((run, at) => run.data(from[at] ?? 0)),
    };
  }

  /** The cursor where it is one that this collection has had; '' for any other text. */
  known(cursor: string): string {
    if (cursor === '' || !cursor.startsWith(`${this.#mark}:`)) return '';
    const counts = countsOf(cursor);
    const isWhole = cursor === `${this.#mark}:${counts.join('.')}`;
    return isWhole && counts.every((count, at) => count >= 0 && count <= (this.#runs[at]?.count ?? -1)) ? cursor : '';
  }
}

/** Steps of each run that a cursor speaks of; none for a cursor before the first run. */
function countsOf(cursor: string): number[] {
  const counts = cursor.slice(cursor.lastIndexOf(':') + 1);
  return counts === '' ? [] : counts.split('.').map(Number);
}

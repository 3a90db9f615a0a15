// Reports and failures in, the directory of results out; every file in it is whole or not there.

import { readdir, rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { checkArray, checkObject, checkPath } from '../../checks/argument-checks.js';
import { ArgumentError, FileError } from '../../checks/errors.js';
import { checkOptions, is, type OptionTable } from '../../checks/options.js';
import { shown } from '../../checks/words.js';
import { AtomicFile, checkReplaceable, syncDirectory, writeError } from '../../logs/stores/atomic-file.js';
import { allFigures, type StepRecord } from '../../step/step-record.js';
import type { StepReport } from '../../step/step-report.js';
import type { RunSummary as JudgedRun } from '../../verdicts/index.js';
import { Aggregates, type MetricSummary, orderFreeMetrics } from '../aggregates/aggregates.js';
import { MEASURE_OPTIONS } from '../measuring/measure-options.js';
import { RunSummaries } from '../run-summaries.js';
import { Journal, type JournalOptions } from '../store/journal.js';
import { DirectoryLock } from './directory-lock.js';
import { makeDirectory } from './make-directory.js';
import { isMetric, writeMetricsParquet } from './metrics-parquet.js';
import { MATRICES, PROMPTS, ResultTables, TEXTS } from './result-tables.js';

const METRICS = 'metrics.jsonl';
const PARQUET = 'metrics.parquet';
const FAILURES = 'failures.jsonl';
const SUMMARY = 'summary.json';

/** What a killed process left of files that it had not finished. */
const UNFINISHED =
  /^\.(metrics\.jsonl|(metrics|prompts|matrices|texts)\.parquet|(matrices|texts)\.parquet\.run|failures\.jsonl|summary\.json|summary\.json\.runs)\.[0-9]+\.tmp$/;

type KeptJournalOptions = JournalOptions & { readonly keep?: boolean | undefined };

const JOURNAL_OPTIONS: OptionTable<KeptJournalOptions> = {
  resume: is.flag,
  version: is.any,
  measuring: (measuring, argument) => checkOptions(measuring as object, MEASURE_OPTIONS, argument),
  keep: is.flag,
};

interface SummaryOfRun {
  run: string;
  /** As the path was given, so that the summary does not depend on its location. */
  directory: string;
  steps: number;
  firstStep: number;
  lastStep: number;
  /** First and last value of each metric. */
  metrics: Record<string, Ends>;
  /** What each metric was over the run's steps; not for averages over time, which weigh steps in a way of their own. */
  statistics?: Record<string, MetricSummary>;
  /** Verdicts, the last regime and correlations with success; `strict` only. */
  judged?: JudgedRun | undefined;
}

interface Ends {
  first: number | null;
  last: number | null;
}

/** Settings of the analysis, as written to the summary. */
export type AnalysisSettings = Readonly<Record<string, string | number | readonly string[] | undefined>>;

/**
 * The directory of `--out`: metrics.jsonl, metrics.parquet, prompts.parquet, matrices.parquet, texts.parquet,
 * summary.json, and failures.jsonl if there are any. No file depends on when or how fast it was written. From `open` to
 * `finish` or `discard` no other process can write here.
 */
export class ResultDirectory {
  readonly #directory: string;
  readonly #lock: DirectoryLock;
  readonly #metrics: AtomicFile;
  /** Keys of all records, by first appearance. */
  readonly #keys = new Set<string>();
  readonly #runs: RunSummaries;
  readonly #tables: ResultTables;
  /** The present run's. */
  #run: SummaryOfRun | undefined;
  #directoryOfRun = '';
  #steps = 0;
  /** Ends of the present run's figures; its summary gets them when all its steps are finished. */
  #ends = new Map<string, Ends>();
  /** Gives the present run's verdicts when all its steps are finished. */
  #judge: (() => JudgedRun) | undefined;
  #statistics = new Aggregates();
  readonly #allStatistics = new Aggregates();
  #bytes = 0;
  #journal: Journal | undefined;
  #keepsJournal = false;

  private constructor(directory: string, lock: DirectoryLock, metrics: AtomicFile) {
    this.#directory = directory;
    this.#lock = lock;
    this.#metrics = metrics;
    this.#runs = new RunSummaries(directory);
    this.#tables = new ResultTables(directory);
  }

  /**
   * Opens a directory for results, and locks it.
   * @throws FileError when the directory cannot be made or written to, or another process writes to it: before anything
   *   was computed for it
   */
  static async open(directory: string): Promise<ResultDirectory> {
    checkPath(directory, 'directory');
    await makeDirectory(directory);
    const lock = await DirectoryLock.take(directory);
    try {
      for (const name of await readdir(directory)) {
        if (UNFINISHED.test(name)) await rm(join(directory, name), { force: true });
      }
      // What none of the results can take the place of would be found when all is measured.
      for (const name of [METRICS, PARQUET, PROMPTS, MATRICES, TEXTS, FAILURES, SUMMARY]) {
        const path = join(directory, name);
        await checkReplaceable(path).catch((error: unknown) => {
          throw writeError(path, error);
        });
      }
      return new ResultDirectory(directory, lock, await AtomicFile.open(directory, METRICS));
    } catch (error) {
      await lock.release();
      throw error instanceof FileError ? error : writeError(directory, error);
    }
  }

  /**
   * What was measured for these results before, by this process or one that was killed. It stays if the analysis does
   * not finish; after `finish` it is removed, unless `keep` is set or files failed: once repaired, only they are
   * measured.
   * @throws FileError when it cannot be read or written
   */
  async journal(options: KeptJournalOptions): Promise<Journal> {
    checkOptions(options, JOURNAL_OPTIONS);
    const { keep, ...opening } = options;
    this.#journal = await Journal.open(this.#directory, opening);
    this.#keepsJournal = keep === true;
    return this.#journal;
  }

  /**
   * Takes in the next report; those of a run come one after the other.
   * @throws ArgumentError unless it is a report, FileError when it cannot be written
   */
  async add(report: StepReport): Promise<void> {
    checkObject(report, 'report');
    checkObject(report.record, 'report.record');
    checkPath(report.file, 'report.file');
    const { record, file, run, directory, step, bytes, summary: judge } = report;
    await this.#metrics.write(`${JSON.stringify(record)}\n`);
    this.#bytes += bytes;
    this.#steps++;
    let closed: SummaryOfRun | undefined;
    if (this.#run?.run !== run || this.#directoryOfRun !== directory) {
      closed = this.#closeRun();
      this.#directoryOfRun = directory;
      this.#run = { run, directory: dirname(file), steps: 0, firstStep: step, lastStep: step, metrics: {} };
    }
    const summary = this.#run;
    this.#judge = judge ?? this.#judge;
    summary.steps++;
    summary.lastStep = step;
    for (const [key, value] of Object.entries(allFigures(record))) {
      if (!isMetric(key, value)) continue;
      const known = this.#ends.get(key);
      if (known === undefined) {
        this.#ends.set(key, { first: value, last: value });
        this.#keys.add(key);
      } else known.last = value;
    }
    this.#statistics.add(orderFreeMetrics({ ...report, metrics: report.samples }));
    const written = [closed && this.#endRun(closed), this.#tables.add(report)];
    await Promise.all(written);
  }

  /** In the order of the calls, whether or not they are waited for. */
  async #endRun(closed: SummaryOfRun): Promise<void> {
    await Promise.all([this.#runs.add(closed), this.#tables.endRun(closed.judged?.verdicts ?? [])]);
  }

  /** @returns the summary of the run that ends here */
  #closeRun(): SummaryOfRun | undefined {
    const summary = this.#run;
    this.#run = undefined;
    if (summary !== undefined) {
      const ends = this.#ends;
      summary.metrics = Object.fromEntries(ends);
      summary.statistics = this.#statistics.summary((key) => ends.has(key));
      summary.judged = this.#judge?.();
    }
    this.#allStatistics.merge(this.#statistics);
    this.#statistics = new Aggregates();
    this.#ends = new Map();
    this.#judge = undefined;
    return summary;
  }

  /**
   * Puts all files into place, when all of them are on disk; the summary comes last and shows that the others are
   * complete. Of no report they are empty ones: `discard` keeps those of before.
   * @param settings written to the summary
   * @param failures of the files that could not be used; none: []
   * @returns whether the journal stays
   * @throws ArgumentError, which leaves everything as it was; FileError when one of them cannot be written: then those
   *   of before are still there
   */
  async finish(settings: AnalysisSettings, failures: readonly FileError[]): Promise<boolean> {
    checkObject(settings, 'settings');
    checkFailures(failures);
    const prepared: AtomicFile[] = [this.#metrics];
    try {
      const closed = this.#closeRun();
      if (closed !== undefined) await this.#endRun(closed);
      prepared.push(...(await this.#tables.prepare()));
      await this.#write(prepared, PARQUET, (file) =>
        writeMetricsParquet(this.#records(), [...this.#keys], (bytes) => file.writeBytes(bytes)),
      );
      await this.#metrics.prepare();
      if (failures.length > 0) {
        const lines = failures.map((failure) => `${JSON.stringify(failureRecord(failure))}\n`);
        await this.#write(prepared, FAILURES, (file) => file.write(lines.join('')));
      }
      const statistics = this.#allStatistics.summary((key) => this.#keys.has(key));
      const counts = { steps: this.#steps, bytes: this.#bytes, failures: failures.length };
      await this.#write(prepared, SUMMARY, async (file) => {
        for await (const piece of this.#runs.within({ ...settings, ...counts, statistics })) await file.write(piece);
        await file.write('\n');
      });
      // Failures of an earlier analysis are not those of this one.
      if (failures.length === 0) await this.#remove(FAILURES);
      for (const file of prepared) await file.place();
      await syncDirectory(this.#directory);
      const keeps = this.#journal !== undefined && (this.#keepsJournal || failures.length > 0);
      if (!keeps) await this.#journal?.remove();
      return keeps;
    } catch (error) {
      for (const file of prepared) await file.discard();
      throw error;
    } finally {
      await this.#release();
    }
  }

  /** Leaves the results as they were found; what was measured stays in the journal. */
  async discard(): Promise<void> {
    await this.#metrics.discard();
    await this.#release();
  }

  async #release(): Promise<void> {
    await this.#runs.discard();
    await this.#tables.discard();
    await this.#journal?.close();
    await this.#lock.release();
  }

  async *#records(): AsyncGenerator<StepRecord, void, undefined> {
    for await (const line of this.#metrics.lines()) yield JSON.parse(line) as StepRecord;
  }

  async #write(prepared: AtomicFile[], name: string, write: (file: AtomicFile) => Promise<void>): Promise<void> {
    const file = await AtomicFile.open(this.#directory, name);
    prepared.push(file);
    await write(file);
    await file.prepare();
  }

  async #remove(name: string): Promise<void> {
    const path = join(this.#directory, name);
    await rm(path, { force: true }).catch((error: unknown) => {
      throw writeError(path, error);
    });
  }
}

function checkFailures(failures: readonly FileError[]): void {
  checkArray(failures, 'failures');
  const stranger = Array.from(failures).findIndex((failure) => !(failure instanceof FileError));
  if (stranger < 0) return;
  const problem = `got ${shown(failures[stranger])}, expected a FileError: what analyze() tells onFailure`;
  throw new ArgumentError(`failures[${stranger}]`, problem);
}

/** A failure as one JSON object. */
function failureRecord({ path, tensor, offset, message }: FileError): Record<string, string | number> {
  return {
    file: path,
    ...(tensor === undefined ? {} : { tensor }),
    ...(offset === undefined ? {} : { offset }),
    message,
  };
}

// Results -> files that are whole or not there: written under another name, synced, renamed.
import { type FileHandle, mkdir, open, rename, rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import type { StepRecord, StepReport } from '../analysis/step-report.js';
import { FileError } from '../errors.js';
import { systemProblem } from '../logs/system-problem.js';
import type { RunSummary as JudgedRun } from '../monitor/verdicts/index.js';

const METRICS = 'metrics.jsonl';
const FAILURES = 'failures.jsonl';
const SUMMARY = 'summary.json';

/** Text is collected to pieces of about this many characters before it goes to the file. */
const PIECE = 64 * 1024;

interface SummaryOfRun {
  run: string;
  /** As the path was given, so that the summary does not depend on where it stands. */
  directory: string;
  steps: number;
  firstStep: number;
  lastStep: number;
  /** First and last value of each metric. */
  metrics: Record<string, { first: number | null; last: number | null }>;
  /** Verdicts, the last regime and correlations with success; `strict` only. */
  judged?: JudgedRun | undefined;
}

/** What the analysis was asked for; stands in the summary. */
export type AnalysisSettings = Readonly<Record<string, string | number | readonly string[] | undefined>>;

/** The directory of `--out`: metrics.jsonl, summary.json, and failures.jsonl if there are any. No file depends on when or how fast it was written. */
export class OutputDirectory {
  readonly #directory: string;
  readonly #metrics: WholeFile;
  readonly #runs: SummaryOfRun[] = [];
  #directoryOfRun = '';
  /** Gives the present run's verdicts, when all its steps are through. */
  #judge: (() => JudgedRun) | undefined;
  #bytes = 0;

  private constructor(directory: string, metrics: WholeFile) {
    this.#directory = directory;
    this.#metrics = metrics;
  }

  /** @throws FileError when the directory cannot be made or written to: before anything was computed for it */
  static async open(directory: string): Promise<OutputDirectory> {
    try {
      await mkdir(directory, { recursive: true });
    } catch (error) {
      throw writeError(directory, error);
    }
    return new OutputDirectory(directory, await WholeFile.open(directory, METRICS));
  }

  async add({ record, file, run, directory, step, bytes, summary: judge }: StepReport): Promise<void> {
    await this.#metrics.write(`${JSON.stringify(record)}\n`);
    this.#bytes += bytes;
    let summary = this.#runs.at(-1);
    if (summary === undefined || summary.run !== run || this.#directoryOfRun !== directory) {
      this.#closeRun();
      this.#directoryOfRun = directory;
      summary = { run, directory: dirname(file), steps: 0, firstStep: step, lastStep: step, metrics: {} };
      this.#runs.push(summary);
    }
    this.#judge = judge ?? this.#judge;
    summary.steps++;
    summary.lastStep = step;
    for (const [key, value] of metricsOf(record)) {
      const known = summary.metrics[key];
      if (known === undefined) summary.metrics[key] = { first: value, last: value };
      else known.last = value;
    }
  }

  #closeRun(): void {
    const summary = this.#runs.at(-1);
    if (summary !== undefined) summary.judged = this.#judge?.();
    this.#judge = undefined;
  }

  /** Puts all files into place; the summary comes last and tells that the others are complete. */
  async finish(settings: AnalysisSettings, failures: readonly FileError[]): Promise<void> {
    await this.#metrics.complete();
    this.#closeRun();
    const failed = failures.map((failure) => `${JSON.stringify(failureRecord(failure))}\n`);
    if (failed.length === 0) await this.#remove(FAILURES);
    else await this.#writeWhole(FAILURES, failed.join(''));
    const steps = this.#runs.reduce((total, run) => total + run.steps, 0);
    const summary = { ...settings, steps, bytes: this.#bytes, failures: failures.length, runs: this.#runs };
    await this.#writeWhole(SUMMARY, `${JSON.stringify(summary, null, 2)}\n`);
    await syncDirectory(this.#directory);
  }

  /** Leaves the directory as it was found. */
  async discard(): Promise<void> {
    await this.#metrics.discard();
  }

  async #writeWhole(name: string, text: string): Promise<void> {
    const file = await WholeFile.open(this.#directory, name);
    try {
      await file.write(text);
      await file.complete();
    } catch (error) {
      await file.discard();
      throw error;
    }
  }

  /** Failures of an earlier analysis are not those of this one. */
  async #remove(name: string): Promise<void> {
    const path = join(this.#directory, name);
    await rm(path, { force: true }).catch((error: unknown) => {
      throw writeError(path, error);
    });
  }
}

function* metricsOf(record: StepRecord): Generator<[string, number | null]> {
  for (const [key, value] of Object.entries(record)) {
    if (key !== 'step' && (typeof value === 'number' || value === null)) yield [key, value];
  }
}

/** A failure as one JSON object. */
export function failureRecord({ path, tensor, offset, message }: FileError): Record<string, string | number> {
  return {
    file: path,
    ...(tensor === undefined ? {} : { tensor }),
    ...(offset === undefined ? {} : { offset }),
    message,
  };
}

/** A file that appears under its name only when it is complete and on disk. */
class WholeFile {
  #collected: string[] = [];
  #characters = 0;
  #open = true;

  private constructor(
    private readonly path: string,
    private readonly temporary: string,
    private readonly handle: FileHandle,
  ) {}

  static async open(directory: string, name: string): Promise<WholeFile> {
    const temporary = join(directory, `.${name}.${process.pid}.tmp`);
    try {
      return new WholeFile(join(directory, name), temporary, await open(temporary, 'w'));
    } catch (error) {
      throw writeError(temporary, error);
    }
  }

  async write(text: string): Promise<void> {
    this.#collected.push(text);
    this.#characters += text.length;
    if (this.#characters >= PIECE) await this.#flush();
  }

  async complete(): Promise<void> {
    await this.#flush();
    try {
      await this.handle.sync();
      await this.#close();
      await rename(this.temporary, this.path);
    } catch (error) {
      throw writeError(this.path, error);
    }
  }

  async discard(): Promise<void> {
    // Best effort: there is already an error to report, or the user wants to get out.
    await this.#close().catch(() => undefined);
    await rm(this.temporary, { force: true }).catch(() => undefined);
  }

  async #flush(): Promise<void> {
    const text = this.#collected.join('');
    this.#collected = [];
    this.#characters = 0;
    try {
      await this.handle.writeFile(text);
    } catch (error) {
      throw writeError(this.path, error);
    }
  }

  async #close(): Promise<void> {
    if (!this.#open) return;
    this.#open = false;
    await this.handle.close();
  }
}

/** So that the renames survive a power cut. */
async function syncDirectory(directory: string): Promise<void> {
  try {
    const handle = await open(directory, 'r');
    await handle.sync().finally(() => handle.close());
  } catch (error) {
    // Some file systems cannot sync a directory; the files themselves are on disk.
    if (!['EINVAL', 'EPERM', 'EISDIR', 'ENOTSUP'].includes((error as NodeJS.ErrnoException).code ?? '')) {
      throw writeError(directory, error);
    }
  }
}

function writeError(path: string, error: unknown): FileError {
  return new FileError({ path }, `cannot write here: ${systemProblem(error)}`, { cause: error });
}

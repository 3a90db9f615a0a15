// Files, folders and globs of a trainer's rollouts -> steps in order, each read whole; beside it only where rows stand
// is held.
import { basename } from 'node:path';
import { checkArray, checkCallbacks, checkOptions, checkPath, optionNames } from '../../checks/argument-checks.js';
import { ArgumentError, FileError } from '../../checks/errors.js';
import { shown } from '../../checks/words.js';
import { naturalOrder } from '../stores/natural-order.js';
import { CsvFile } from './csv-log.js';
import { checkFormat, findLogs, type LogFile } from './find-logs.js';
import type { RolloutFormat } from './format.js';
import { type ColumnNames, mappedColumns } from './formats/own.js';
import { type GatherOptions, gatherStep, type StepOrigin, StepRows } from './gather-step.js';
import { LineFile } from './json-lines/line-blocks.js';
import { indexLines, readLines } from './json-lines/line-log.js';
import { type BlockContext, type FormatChoice, formatOf } from './json-lines/parse-lines.js';
import { ParsePool } from './json-lines/parse-pool.js';
import type { LogPart } from './log-part.js';
import { ParquetFile } from './parquet/parquet-log.js';
import { checkTags, type ReasoningTags, THINK, tagIds } from './reasoning.js';
import type { RolloutStep } from './rollout.js';
import type { RowBatch } from './row-batch.js';

export interface ReadRolloutsOptions {
  /** Name of the reader, where the fields do not tell. Default: by the fields of each file. */
  format?: string | undefined;
  /** Columns of a table of anyone's: our name of each -> its name in the file. JSON lines, Parquet and CSV. */
  columns?: ColumnNames | undefined;
  /** Tags around the reasoning, or that all of the response is reasoning. Default: <think> and </think>. */
  reasoning?: ReasoningTags | undefined;
  /** Ids of these tags, for logs of token ids. */
  tagTokens?: readonly [open: number, close: number] | undefined;
  /** A tokenizer.json to look them up in. */
  tokenizer?: string | undefined;
  /** Rows a prompt, one after the other: for logs with neither group ids nor prompts. */
  groupSize?: number | undefined;
  /** Threads that parse JSON lines; 1: none beside the caller's. Default: one a processor. */
  threads?: number | undefined;
  /**
   * Called with each file, line or row that cannot be used; the others are still given. Without it the first one makes
   * the iteration throw.
   */
  onError?: ((error: FileError) => void) | undefined;
  /** Called with what was passed over, before the first step. */
  onNote?: ((note: string) => void) | undefined;
  signal?: AbortSignal | undefined;
}

const OPTIONS = optionNames<ReadRolloutsOptions>({
  format: true,
  columns: true,
  reasoning: true,
  tagTokens: true,
  tokenizer: true,
  groupSize: true,
  threads: true,
  onError: true,
  onNote: true,
  signal: true,
});

/**
 * Reads the rollouts that a trainer logged, a step at a time, in the order of runs and steps. Rows of a step may stand
 * in several files, and those of several steps in one, in any order. Memory: a step or two, and blocks of a few MiB for
 * each thread.
 * @param source paths of files and folders, or globs
 * @throws {ArgumentError} for what is no option, FileError for the first file, line or row that cannot be used, unless
 *   `onError` takes them; the signal's reason when it is aborted
 * @example
 * for await (const { step, rows, reward } of readRollouts('rollouts/')) console.log(step, rows, reward);
 */
export async function* readRollouts(
  source: string | readonly string[],
  options: ReadRolloutsOptions = {},
): AsyncGenerator<RolloutStep, void, undefined> {
  const { choice, gathering } = await checked(source, options);
  const { signal, onError, onNote } = options;
  const report = (error: FileError): void => {
    if (onError === undefined) throw error;
    onError(error);
  };
  const { files, problems, notes } = await findLogs(source, choice, signal);
  problems.forEach(report);
  for (const note of notes) onNote?.(note);
  const pool = new ParsePool(options.threads);
  const opened = new OpenLogs(pool, signal);
  try {
    const { steps, failures } = await planSteps(files, opened, signal);
    failures.forEach(report);
    for await (const { step, errors } of inTurn(steps, (one) => opened.readStep(one, gathering))) {
      errors.forEach(report);
      if (step !== undefined) yield step;
    }
  } finally {
    await opened.close();
    await pool.close();
  }
}

async function checked(
  source: string | readonly string[],
  options: ReadRolloutsOptions,
): Promise<{ choice: FormatChoice | undefined; gathering: GatherOptions }> {
  checkOptions(options, OPTIONS);
  checkCallbacks(options, ['onError', 'onNote']);
  if (typeof source !== 'string') {
    checkArray(source, 'source');
    for (const path of source) checkPath(path, 'source');
  }
  const { format, columns, reasoning = THINK, tagTokens, tokenizer, groupSize, threads } = options;
  if (format !== undefined) checkFormat(format);
  if (columns !== undefined) {
    if (format !== undefined)
      throw new ArgumentError('options.columns', 'go without a format: they say what the columns are');
    if (typeof columns !== 'object' || columns === null) {
      throw new ArgumentError('options.columns', `got ${shown(columns)}, expected { step: '…', output: '…', … }`);
    }
    mappedColumns(columns);
  }
  checkTags(reasoning, 'options.reasoning');
  for (const [name, value] of Object.entries({ groupSize, threads })) {
    if (value === undefined || (Number.isSafeInteger(value) && value > 0)) continue;
    throw new ArgumentError(`options.${name}`, `got ${shown(value)}, expected a whole number of 1 or more`);
  }
  const isPair = tagTokens?.length === 2 && tagTokens.every((id) => Number.isSafeInteger(id) && id >= 0);
  if (tagTokens !== undefined && !isPair) {
    throw new ArgumentError('options.tagTokens', 'expected the ids of the two tags, such as [151667, 151668]');
  }
  const ids = tagTokens ?? (tokenizer === undefined ? undefined : await tagIds(tokenizer, reasoning));
  const choice =
    columns !== undefined ? { name: 'columns', columns } : format !== undefined ? { name: format } : undefined;
  return { choice, gathering: { reasoning, tagTokens: ids, groupSize } };
}

interface StepPlan {
  readonly runDirectory: string;
  readonly run: string;
  readonly step: number;
  readonly format: RolloutFormat;
  readonly isNamed: boolean;
  readonly notes: string[];
  readonly parts: { readonly file: LogFile; readonly part: LogPart }[];
}

/** Which rows of which files make each step. */
async function planSteps(
  files: readonly LogFile[],
  opened: OpenLogs,
  signal: AbortSignal | undefined,
): Promise<{ steps: StepPlan[]; failures: FileError[] }> {
  const steps = new Map<string, StepPlan>();
  const failures: FileError[] = [];
  /** Files of a folder that say no step at all are steps one after the other. */
  const unnumbered = new Map<string, number>();
  for (const file of files) {
    signal?.throwIfAborted();
    const format = formatOf(file.choice);
    const { runDirectory, step: named, split } = file.place;
    let parts: LogPart[];
    try {
      parts = named === undefined ? await opened.index(file, format) : [{ ranges: [WHOLE] }];
    } catch (error) {
      if (!(error instanceof FileError) || error === signal?.reason) throw error;
      failures.push(error);
      continue;
    }
    for (const part of parts) {
      const notes: string[] = [];
      let step = named ?? part.step;
      if (step === undefined) {
        step = (unnumbered.get(runDirectory) ?? 0) + 1;
        unnumbered.set(runDirectory, step);
        notes.push('neither path nor rows say a step: files are taken to be steps, in the order of their names');
      }
      const run = part.run ?? nameOfRun(runDirectory, split);
      const key = [format.name, runDirectory, run, step].join('\n');
      const plan = steps.get(key) ?? {
        runDirectory,
        run,
        step,
        format,
        isNamed: named !== undefined,
        notes,
        parts: [],
      };
      plan.parts.push({ file, part });
      steps.set(key, plan);
      opened.expect(file);
    }
  }
  const inOrder = [...steps.values()].sort(
    (a, b) => naturalOrder(a.runDirectory, b.runDirectory) || naturalOrder(a.run, b.run) || a.step - b.step,
  );
  return { steps: inOrder, failures };
}

const WHOLE = { begin: 0, end: Number.POSITIVE_INFINITY, line: 0 };

function nameOfRun(runDirectory: string, split: string | undefined): string {
  const name = basename(runDirectory);
  return split === undefined ? name : `${name}/${split}`;
}

type OpenLog = LineFile | ParquetFile | CsvFile;

/** Files that are being read. One with several steps stays open from the first to the last of them. */
class OpenLogs {
  readonly #files = new Map<string, { file: Promise<OpenLog>; turn: Promise<unknown> }>();
  /** Parts that are still to be read. */
  readonly #left = new Map<string, number>();

  constructor(
    private readonly pool: ParsePool,
    private readonly signal: AbortSignal | undefined,
  ) {}

  expect({ path }: LogFile): void {
    this.#left.set(path, (this.#left.get(path) ?? 0) + 1);
  }

  async index(log: LogFile, format: RolloutFormat): Promise<LogPart[]> {
    const file = await openLog(log, this.signal);
    try {
      return await (file instanceof LineFile ? indexLines(file, format, this.signal) : file.index(format, this.signal));
    } finally {
      await file.close();
    }
  }

  async readStep(
    plan: StepPlan,
    options: GatherOptions,
  ): Promise<{ step: RolloutStep | undefined; errors: FileError[] }> {
    const rows = new StepRows();
    const errors: FileError[] = [];
    for (const { file, part } of plan.parts) {
      const context = { path: file.path, place: file.place, choice: file.choice, step: part.step };
      try {
        await this.#readPart(file, part, context, rows, errors);
      } catch (error) {
        if (!(error instanceof FileError) || error === this.signal?.reason) throw error;
        errors.push(error);
      }
    }
    const { format, step, run, runDirectory, isNamed, notes } = plan;
    const files = plan.parts.map(({ file }) => file.path);
    const origin: StepOrigin = { format, files, step, run, runDirectory, isNamed, notes };
    if (rows.rows === 0) return { step: undefined, errors };
    try {
      return { step: gatherStep(rows, origin, options), errors };
    } catch (error) {
      if (!(error instanceof FileError)) throw error;
      return { step: undefined, errors: [...errors, error] };
    }
  }

  async close(): Promise<void> {
    const files = [...this.#files.values()];
    this.#files.clear();
    for (const { file, turn } of files) {
      await turn.catch(() => undefined);
      await (await file.catch(() => undefined))?.close();
    }
  }

  /** Reads of one file take turns: what it has unpacked or decoded serves the next step. */
  #readPart(log: LogFile, part: LogPart, context: BlockContext, rows: StepRows, errors: FileError[]): Promise<void> {
    const { path } = log;
    const opened = this.#files.get(path) ?? { file: openLog(log, this.signal), turn: Promise.resolve() };
    this.#files.set(path, opened);
    const reading = opened.turn.then(async () => {
      const file = await opened.file;
      const pieces =
        file instanceof LineFile
          ? readLines(file, part.ranges, context, this.pool, this.signal)
          : file.read(part.ranges, context, this.signal);
      for await (const { batch, line, offset } of pieces) {
        rows.add(batch, line);
        nameProblems(batch, log, line, offset, errors);
      }
    });
    const done = reading.finally(async () => {
      const left = (this.#left.get(path) ?? 1) - 1;
      this.#left.set(path, left);
      if (left > 0) return;
      this.#files.delete(path);
      await (await opened.file.catch(() => undefined))?.close();
    });
    opened.turn = done.catch(() => undefined);
    return done;
  }
}

function openLog({ path, container }: LogFile, signal: AbortSignal | undefined): Promise<OpenLog> {
  if (container === 'json-lines') return LineFile.open(path, signal);
  return (container === 'parquet' ? ParquetFile : CsvFile).open(path, signal);
}

function nameProblems(
  { problems, bad }: RowBatch,
  { path, container }: LogFile,
  line: number,
  offset: number,
  errors: FileError[],
): void {
  const what = container === 'json-lines' ? 'line' : 'row';
  const isPacked = path.endsWith('.gz');
  for (const problem of problems) {
    const at = problem.offset === undefined || isPacked ? undefined : offset + problem.offset;
    const where = at === undefined ? { path } : { path, offset: at };
    errors.push(new FileError(where, `${what} ${line + problem.line + 1}: ${problem.problem}`));
  }
  const more = bad - problems.length;
  if (more > 0)
    errors.push(new FileError({ path }, `and ${more} more ${what}s after ${what} ${line + 1} that cannot be used`));
}

/** Bytes that may be read while a step is in use. */
const AHEAD_BYTES = 32 * 2 ** 20;

/** At most: of tables and compressed files it is not known what a part of them has. */
function bytesOf({ bytes, container }: LogFile, { ranges }: LogPart): number {
  if (container !== 'json-lines') return bytes;
  return Math.min(
    bytes,
    ranges.reduce((sum, { begin, end }) => sum + end - begin, 0),
  );
}

/**
 * Results in the order of `plans`; those that come next are begun meanwhile: one whatever its size, more if they are
 * small.
 */
async function* inTurn<T>(
  plans: readonly StepPlan[],
  read: (plan: StepPlan) => Promise<T>,
): AsyncGenerator<T, void, undefined> {
  const coming: { reading: Promise<T>; bytes: number }[] = [];
  let bytes = 0;
  let next = 0;
  try {
    for (;;) {
      while (next < plans.length && (coming.length < 2 || bytes < AHEAD_BYTES)) {
        const plan = plans[next++] as StepPlan;
        const size = plan.parts.reduce((sum, { file, part }) => sum + bytesOf(file, part), 0);
        const reading = read(plan);
        // Its failure is told when it is asked for.
        reading.catch(() => undefined);
        coming.push({ reading, bytes: size });
        bytes += size;
      }
      const first = coming.shift();
      if (first === undefined) return;
      bytes -= first.bytes;
      yield await first.reading;
    }
  } finally {
    await Promise.allSettled(coming.map(({ reading }) => reading));
  }
}

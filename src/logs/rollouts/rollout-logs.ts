// Finds the steps in files, folders and globs of a trainer's rollouts, in order, each readable on its own: here, in
// another process, or again. Besides the present step it holds only where rows are.
import { createHash } from 'node:crypto';
import { basename } from 'node:path';
import { FileError } from '../../checks/errors.js';
import { printable } from '../../checks/words.js';
import { type FoundInputs, findInputs, type Searched } from '../find-inputs.js';
import { headerDigest } from '../steps/step-digest.js';
import { naturalOrder } from '../stores/natural-order.js';
import { CsvFile } from './csv-log.js';
import { findLogs, type LogChoice, type LogFile } from './find-logs.js';
import { type Annotations, type Container, isCompressed, type Place, plainName, type RolloutFormat } from './format.js';
import { type GatherStepOptions, gatherStep, type StepOrigin } from './gather-step.js';
import { LineFile } from './json-lines/line-blocks.js';
import { digestOf, LineIndex } from './json-lines/line-index.js';
import { readLogLines } from './json-lines/line-log.js';
import { type BlockContext, type FormatChoice, formatOf } from './json-lines/parse-lines.js';
import { ParsePool } from './json-lines/parse-pool.js';
import { type LogPart, type Range, WHOLE_FILE } from './log-part.js';
import type { Column } from './parquet/column-fields.js';
import { ParquetFile } from './parquet/parquet-log.js';
import { leaveOutCopies, type SeenContents } from './repeats/copies.js';
import { lastTimes, type Restart } from './repeats/last-times.js';
import { CLOCK_COLUMNS, leaveOutRepeatedSteps } from './repeats/repeated-steps.js';
import type { AdvantageRows } from './rewards/learn-weights.js';
import { NumberColumns } from './rewards/number-columns.js';
import { learnRunWeights, type RewardWeights } from './rewards/reward-weights.js';
import type { LoggedColumns } from './rollout.js';
import { checkBad, type RowBatch } from './rows/row-batch.js';
import { StepRows } from './rows/step-rows.js';

/** How logs are read. */
export interface LogReading {
  /** The reader that is forced, or the column of environments for whichever reader it is. */
  readonly choice: LogChoice | undefined;
  readonly gathering: GatherStepOptions;
  /** Threads that parse JSON lines. Default: one a processor. */
  readonly threads?: number | undefined;
  /** Bytes that reading may take, about. Default: what the longest lines and row groups that are read at all do. */
  readonly maxMemory?: number | undefined;
  /** What is known of the files from an earlier look: filled, and used again. */
  readonly seen?: SeenLogs | undefined;
}

/** What was seen of logs: files that have not changed since, and lines that were there before, are not read again. */
export interface SeenLogs {
  readonly files: Map<string, LogFile>;
  readonly lines: Map<string, LineIndex>;
  /** Of files whose rows say their steps. */
  readonly parts: Map<string, { readonly stamp: string; readonly parts: readonly LogPart[] }>;
  /** Of files that may be copies. */
  readonly contents: SeenContents;
}

/** The rows of one step in one file. Plain data. */
export interface LoggedPart {
  readonly path: string;
  readonly container: Container;
  readonly place: Place;
  /** Size of the file. */
  readonly fileBytes: number;
  /** Identifies the content of the file. */
  readonly stamp: string;
  /** The same of only these rows, if the file may grow. */
  readonly digest?: string | undefined;
  /** The step that rows must say; undefined if the path says it. */
  readonly step?: number | undefined;
  /** Undefined: all rows of the file. */
  readonly ranges?: readonly Range[] | undefined;
}

/** One step that a log has, before it is read. Plain data. */
export interface LoggedStep {
  readonly format: FormatChoice;
  readonly step: number;
  readonly run: string;
  readonly runDirectory: string;
  /** The path says the step. */
  readonly isNamed: boolean;
  readonly notes: readonly string[];
  readonly parts: readonly LoggedPart[];
  /** Which columns make up the reward, in logs that have advantages. */
  readonly rewards?: RewardWeights | undefined;
  /** Of its rows, at most: of tables and compressed files it is not known what a part of them has. */
  readonly bytes: number;
  /** Differs when the content may have changed. */
  readonly identity: string;
}

export interface FoundRollouts {
  /** By run directory, run and step. */
  readonly steps: readonly LoggedStep[];
  readonly problems: readonly FileError[];
  /** What was passed over, and why. */
  readonly notes: readonly string[];
}

/** A step as it was read. */
export interface ReadRollouts {
  /** Undefined if no row of it can be used. */
  readonly step: LoggedColumns | undefined;
  /** Files, lines and rows that cannot be used. */
  readonly errors: readonly FileError[];
  /** The bytes of the step's texts are not used any more: their memory serves the next ones. */
  release(): void;
}

/** V8 has no arrays of twice as many elements, and ends the process where one grows to them. */
const MOST_STEP_ROWS = 2 ** 26;

type OpenLog = LineFile | ParquetFile | CsvFile;

/**
 * Logs that are being read. A file with several steps stays open from the first to the last of them that is expected.
 */
export class RolloutLogs {
  readonly #files = new Map<string, { file: Promise<OpenLog>; turn: Promise<unknown> }>();
  /** Parts that are still to be read. */
  readonly #left = new Map<string, number>();
  /** By their folder. */
  readonly #annotations = new Map<string, Promise<Annotations>>();
  readonly #pool: ParsePool;

  constructor(
    private readonly reading: LogReading,
    private readonly signal: AbortSignal | undefined,
  ) {
    this.#pool = new ParsePool(reading.threads);
  }

  /**
   * Finds the steps at `source`, and expects all of them to be read. Never rejects because of a path.
   * @throws the signal's reason when it is aborted
   */
  async find(source: string | readonly string[]): Promise<FoundRollouts> {
    const found = await findInputs(source, { wanted: 'logs', signal: this.signal });
    const { empty, problems, ...rest } = await this.among(found);
    const nothing = [...empty].map(([{ path }, problem]) => new FileError({ path }, problem));
    return { ...rest, problems: [...found.problems, ...problems, ...nothing] };
  }

  /** The same of what a search found. */
  async among(inputs: FoundInputs): Promise<FoundRollouts & { readonly empty: ReadonlyMap<Searched, string> }> {
    const { choice, seen } = this.reading;
    const { files: found, problems, notes, empty } = await findLogs(inputs, choice, this.signal, seen?.files);
    const { files, notes: copies } = await leaveOutCopies(found, seen?.contents, this.signal);
    const { steps: all, failures, notes: restarts } = await planSteps(files, seen, this.reading.maxMemory, this.signal);
    const { steps: single, notes: repeated } = await leaveOutRepeatedSteps(
      all,
      ({ format }) => formatOf(format),
      (step) => this.#digestOf(step),
      seen !== undefined,
    );
    const steps = await this.#withRewards(single);
    for (const step of steps) this.expect(step);
    const said = [...notes, ...copies, ...restarts, ...repeated];
    return { steps, problems: [...problems, ...failures], notes: said, empty };
  }

  /** The step will be read once more. */
  expect({ parts }: LoggedStep): void {
    for (const { path } of parts) this.#left.set(path, (this.#left.get(path) ?? 0) + 1);
  }

  /** The step will not be read, though it was expected to be. */
  async skip({ parts }: LoggedStep): Promise<void> {
    for (const { path } of parts) await this.#done(path);
  }

  /**
   * Reads a step. What is wrong with its files and rows is among the errors.
   * @throws the signal's reason when it is aborted
   */
  async read(logged: LoggedStep): Promise<ReadRollouts> {
    const { maxMemory } = this.reading;
    const rows = new StepRows();
    const errors: FileError[] = [];
    for (const part of logged.parts) {
      const { path, place, step } = part;
      try {
        await this.#readPart(part, { path, place, choice: logged.format, step, maxMemory }, rows, errors);
      } catch (error) {
        if (!(error instanceof FileError) || error === this.signal?.reason) throw error;
        errors.push(error);
      }
    }
    const { step, run, runDirectory, isNamed, notes, rewards } = logged;
    const files = logged.parts.map(({ path }) => path);
    const format = formatOf(logged.format);
    const release = () => rows.release();
    if (rows.rows === 0) return { step: undefined, errors, release };
    try {
      const later = await this.#annotate(rows, logged, format);
      const origin: StepOrigin = {
        ...{ format, files, step, run, runDirectory, isNamed, rewards },
        notes: [...notes, ...later],
      };
      return { step: gatherStep(rows, origin, this.reading.gathering), errors, release };
    } catch (error) {
      if (!(error instanceof FileError) || error === this.signal?.reason) throw error;
      return { step: undefined, errors: [...errors, error], release };
    }
  }

  /** @returns what is to be said of what the trainer has said of the rows later */
  async #annotate(rows: StepRows, { parts }: LoggedStep, { annotations }: RolloutFormat): Promise<string[]> {
    if (annotations === undefined) return [];
    const folders = new Set(parts.flatMap(({ path }) => annotations.folder(path) ?? []));
    const notes: string[] = [];
    for (const folder of folders) {
      const opened = this.#annotations.get(folder) ?? annotations.open(folder, this.reading.maxMemory, this.signal);
      this.#annotations.set(folder, opened);
      const later = await opened;
      await later.fold(rows, this.signal);
      notes.push(...later.notes);
    }
    return notes;
  }

  async close(): Promise<void> {
    const files = [...this.#files.values()];
    this.#files.clear();
    for (const { file, turn } of files) {
      await turn.catch(() => undefined);
      await (await file.catch(() => undefined))?.close();
    }
    for (const opened of this.#annotations.values()) await (await opened.catch(() => undefined))?.close();
    this.#annotations.clear();
    await this.#pool.close();
  }

  /** The same, with what each run's advantages tell of its rewards. */
  async #withRewards(steps: readonly LoggedStep[]): Promise<LoggedStep[]> {
    if (this.reading.gathering.rewardColumns !== undefined) return [...steps];
    const runs = new Map<string, LoggedStep[]>();
    for (const step of steps) {
      if (formatOf(step.format).advantageField === undefined) continue;
      const key = JSON.stringify([step.format, step.runDirectory, step.run]);
      runs.set(key, [...(runs.get(key) ?? []), step]);
    }
    const learned = new Map<LoggedStep, RewardWeights>();
    for (const run of runs.values()) {
      const rewards = await learnRunWeights(this.#advantagesOf(run));
      for (const step of run) learned.set(step, rewards);
    }
    return steps.map((step) => (learned.has(step) ? { ...step, rewards: learned.get(step) } : step));
  }

  async *#advantagesOf(steps: readonly LoggedStep[]): AsyncGenerator<AdvantageRows | undefined, void, undefined> {
    for (const { parts, format } of steps) {
      const reader = formatOf(format);
      const rows = new NumberColumns(reader.advantageField as string);
      try {
        for (const part of parts) {
          const file = await openLog(part, this.signal, this.reading.maxMemory);
          try {
            if (file instanceof LineFile) {
              const lines = new StepRows();
              const context = { path: part.path, place: part.place, choice: format, step: part.step };
              const ranges = part.ranges ?? WHOLE_FILE.ranges;
              for await (const { batch, line } of readLogLines(file, ranges, context, this.#pool, this.signal))
                lines.add(batch, line);
              rows.add(numberColumns(lines), 0, lines.rows);
              lines.release();
            }
            if (!(file instanceof ParquetFile)) continue;
            const names = new Set(['prompt', ...(reader.columnsOf?.(file.columns) ?? [])]);
            const pieces = file.pieces(part.ranges ?? WHOLE_FILE.ranges, names, this.signal);
            for await (const { columns, from, to } of pieces) rows.add(columns, from, to);
          } finally {
            await file.close();
          }
        }
        yield rows.taken();
      } catch (error) {
        // What is wrong with it is reported when it is read.
        if (!(error instanceof FileError) || error === this.signal?.reason) throw error;
        yield undefined;
      }
    }
  }

  /** Of a step's rows, whatever they say of when they were written. */
  async #digestOf({ parts, identity }: LoggedStep): Promise<string | undefined> {
    const key = [...parts.map(({ path }) => path), identity].join('\n');
    const known = this.reading.seen?.contents.get(key);
    if (known !== undefined) return known;
    const hash = createHash('sha256');
    for (const part of parts) {
      try {
        const file = await openLog(part, this.signal, this.reading.maxMemory);
        try {
          if (!(file instanceof ParquetFile)) return undefined;
          const isClock = (name: string): boolean => CLOCK_COLUMNS.test(name);
          hash.update(await file.digest(part.ranges ?? WHOLE_FILE.ranges, isClock, this.signal));
        } finally {
          await file.close();
        }
      } catch (error) {
        // What is wrong with it is reported when it is read.
        if (!(error instanceof FileError) || error === this.signal?.reason) throw error;
        return undefined;
      }
    }
    const digest = hash.digest('base64');
    this.reading.seen?.contents.set(key, digest);
    return digest;
  }

  /** Reads of one file take turns: what it has unpacked or decoded serves the next step. */
  #readPart(part: LoggedPart, context: BlockContext, rows: StepRows, errors: FileError[]): Promise<void> {
    const { path, ranges = WHOLE_FILE.ranges } = part;
    const opened = this.#files.get(path) ?? {
      file: openLog(part, this.signal, this.reading.maxMemory),
      turn: Promise.resolve(),
    };
    this.#files.set(path, opened);
    const reading = opened.turn.then(async () => {
      const file = await opened.file;
      const pieces =
        file instanceof LineFile
          ? readLogLines(file, ranges, context, this.#pool, this.signal)
          : file.read(ranges, context, this.signal);
      for await (const { batch, line, offset } of pieces) {
        if (rows.rows + batch.rows > MOST_STEP_ROWS) {
          const problem = `its step has more than the ${MOST_STEP_ROWS} rows that are read as one: write the step of each row`;
          throw new FileError({ path }, problem);
        }
        rows.add(batch, line);
        const isPacked = isCompressed(path) || part.container === 'parquet';
        if (
          isPacked &&
          rows.bytes + (batch.texts?.memory.byteLength ?? 0) > (this.reading.maxMemory ?? Number.POSITIVE_INFINITY)
        ) {
          const problem = `a step in it unpacks to more than --max-memory has room for (${rows.rows} rows take ${rows.bytes} bytes): give more, or write fewer rows a step`;
          throw new FileError({ path }, problem);
        }
        nameProblems(batch, part, line, offset, errors);
        checkBad(path, rows.bad, rows.bad + rows.rows);
      }
    });
    const done = reading.finally(() => this.#done(path));
    opened.turn = done.catch(() => undefined);
    return done;
  }

  async #done(path: string): Promise<void> {
    const left = (this.#left.get(path) ?? 1) - 1;
    this.#left.set(path, left);
    if (left > 0) return;
    this.#left.delete(path);
    const opened = this.#files.get(path);
    this.#files.delete(path);
    await (await opened?.file.catch(() => undefined))?.close();
  }
}

/** The parts of the rewards of rows, and their prompts, as a table has them. */
function numberColumns(rows: StepRows): ReadonlyMap<string, Column> {
  const parts = rows.column<Readonly<Record<string, number>>>('rewards') ?? [];
  const names = [...new Set(parts.flatMap((part) => Object.keys(part ?? {})))];
  rows.readTexts('prompt');
  return new Map<string, Column>([
    ['prompt', { values: rows.column<string>('prompt') ?? [], isText: true }],
    ...names.map((name) => [name, { values: parts.map((part) => part?.[name]), isText: false }] as const),
  ]);
}

/** A step under way to being listed. */
type StepPlan = Omit<LoggedStep, 'bytes' | 'identity' | 'parts'> & { readonly parts: LoggedPart[] };

/** Which rows of which files make each step. */
async function planSteps(
  files: readonly LogFile[],
  seen: SeenLogs | undefined,
  maxMemory: number | undefined,
  signal: AbortSignal | undefined,
): Promise<{ steps: LoggedStep[]; failures: FileError[]; notes: string[] }> {
  const failures: FileError[] = [];
  const indexed: { readonly file: LogFile; readonly parts: readonly LogPart[] }[] = [];
  /** Files that have rows of a step. */
  const having = new Map<string, number>();
  for (const file of files) {
    signal?.throwIfAborted();
    try {
      const isOneStep = file.place.step !== undefined;
      const parts = isOneStep ? [WHOLE_FILE] : await indexOf(file, formatOf(file.choice), seen, maxMemory, signal);
      indexed.push({ file, parts });
      for (const part of parts) having.set(stepKey(file, part), (having.get(stepKey(file, part)) ?? 0) + 1);
    } catch (error) {
      if (!(error instanceof FileError) || error === signal?.reason) throw error;
      failures.push(error);
    }
  }
  const steps = new Map<string, StepPlan>();
  const notes: string[] = [];
  /** Files of a run that say no step at all are steps one after the other, and parts of one file are one. */
  const unnumbered = new Map<string, Map<string, number>>();
  for (const { file, parts: all } of indexed) {
    const { path, container, place, choice: format, bytes: fileBytes, stamp } = file;
    const { runDirectory, step: named, stepElse, partOf = path } = place;
    const { parts, restarts } = lastTimes(all, (part) => having.get(stepKey(file, part)) === 1);
    notes.push(...restarts.map((restart) => restartNote(file, restart)));
    for (const part of parts) {
      const assumed: string[] = [];
      let step = named ?? part.step ?? stepElse;
      if (part.step !== undefined && stepElse !== undefined && part.step !== stepElse) {
        assumed.push(`the path says step ${stepElse}, rows say ${part.step}: what rows say counts`);
      }
      const run = runOf(file, part);
      if (step === undefined) {
        const steps = unnumbered.get(`${runDirectory}\n${run}`) ?? new Map<string, number>();
        unnumbered.set(`${runDirectory}\n${run}`, steps);
        step = steps.get(partOf) ?? steps.size + 1;
        steps.set(partOf, step);
        assumed.push('neither path nor rows say a step: files are taken to be steps, in the order of their names');
      }
      const key = stepKey(file, { ...part, step });
      const plan = steps.get(key) ?? {
        format,
        runDirectory,
        run,
        step,
        isNamed: named !== undefined,
        notes: assumed,
        parts: [],
      };
      const isWhole = part.ranges.length === 1 && part.ranges[0]?.end === Number.POSITIVE_INFINITY;
      plan.parts.push({
        path,
        container,
        place,
        fileBytes,
        stamp,
        step: part.step,
        ...(!isWhole && {
          digest: digestOf(part.ranges),
          ranges: part.ranges.map(({ begin, end, line }) => ({ begin, end, line })),
        }),
      });
      steps.set(key, plan);
    }
  }
  const inOrder = [...steps.values()].sort(
    (a, b) => naturalOrder(a.runDirectory, b.runDirectory) || naturalOrder(a.run, b.run) || a.step - b.step,
  );
  return { steps: inOrder.map(listed), failures, notes };
}

function restartNote({ path, container }: LogFile, { from, to, line }: Restart): string {
  const where = `${container === 'json-lines' ? 'line' : 'row'} ${line}`;
  return (
    `${printable(path)}: steps fall from ${from} to ${to} at ${where}: logged again after a restart; ` +
    'of a step that came twice the last time counts'
  );
}

function listed(plan: StepPlan): LoggedStep {
  const bytes = plan.parts.reduce((sum, part) => sum + bytesOf(part), 0);
  return { ...plan, bytes, identity: identityOf(plan) };
}

function bytesOf({ fileBytes, container, ranges }: LoggedPart): number {
  if (container !== 'json-lines' || ranges === undefined) return fileBytes;
  return Math.min(
    fileBytes,
    ranges.reduce((sum, { begin, end }) => sum + end - begin, 0),
  );
}

/**
 * Rows of a file that grows are known by themselves: else every step would seem to change with each that is added, and
 * once more when the file is compressed.
 */
function identityOf({ format, parts }: Pick<LoggedStep, 'format' | 'parts'>): string {
  const seen = parts.map(({ path, stamp, digest }) => JSON.stringify([plainName(path), digest ?? stamp]));
  return headerDigest(format.name, ...seen);
}

function runOf({ place }: LogFile, { run = basename(place.runDirectory), split = place.split }: LogPart): string {
  return split === undefined || split === 'train' ? run : `${run}/${split}`;
}

function stepKey(file: LogFile, part: LogPart): string {
  return [
    file.choice.name,
    file.place.runDirectory,
    runOf(file, part),
    file.place.step ?? part.step ?? file.place.stepElse,
  ].join('\n');
}

async function indexOf(
  log: LogFile,
  format: RolloutFormat,
  seen: SeenLogs | undefined,
  maxMemory: number | undefined,
  signal: AbortSignal | undefined,
): Promise<readonly LogPart[]> {
  const before = seen?.parts.get(log.path);
  if (before !== undefined && before.stamp === log.stamp) return before.parts;
  const file = await openLog(log, signal, maxMemory);
  try {
    const parts = await partsOf(file, format, seen, signal);
    // As it is now: it may have grown since it was found.
    seen?.parts.set(log.path, { stamp: file.stamp, parts });
    return parts;
  } finally {
    await file.close();
  }
}

async function partsOf(
  file: OpenLog,
  format: RolloutFormat,
  seen: SeenLogs | undefined,
  signal: AbortSignal | undefined,
): Promise<LogPart[]> {
  if (!(file instanceof LineFile)) return file.index(format, signal);
  const index = seen?.lines.get(file.path) ?? new LineIndex();
  seen?.lines.set(file.path, index);
  return index.advance(file, format, signal);
}

function openLog(
  { path, container }: Pick<LogFile, 'path' | 'container'>,
  signal: AbortSignal | undefined,
  maxMemory: number | undefined,
): Promise<OpenLog> {
  if (container === 'json-lines') return LineFile.open(path, signal, maxMemory);
  return (container === 'parquet' ? ParquetFile : CsvFile).open(path, signal, maxMemory);
}

function nameProblems(
  { problems, bad }: RowBatch,
  { path, container }: LoggedPart,
  line: number,
  offset: number,
  errors: FileError[],
): void {
  const what = container === 'json-lines' ? 'line' : 'row';
  const isPacked = isCompressed(path);
  for (const problem of problems) {
    const at = problem.offset === undefined || isPacked ? undefined : offset + problem.offset;
    const where = at === undefined ? { path } : { path, offset: at };
    errors.push(new FileError(where, `${what} ${line + problem.line + 1}: ${problem.problem}`));
  }
  const more = bad - problems.length;
  if (more > 0)
    errors.push(new FileError({ path }, `and ${more} more ${what}s after ${what} ${line + 1} that cannot be used`));
}

// Rows of one step, by the readers of rollouts: of a trainer's log, or of a table with a group a row (JSON lines, CSV,
// Parquet), from files or stdin.
import { createReadStream, createWriteStream } from 'node:fs';
import { mkdtemp, rename, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { logMemory } from '../../analysis/measuring/memory-plan.js';
import { unlessAborted } from '../../checks/abort.js';
import { FileError } from '../../checks/errors.js';
import { counted } from '../../checks/words.js';
import { containerOf } from '../../logs/input-names.js';
import type { OwnColumn } from '../../logs/rollouts/columns.js';
import type { ColumnNames } from '../../logs/rollouts/formats/rollouts/reader.js';
import { type LogOptions, logReading } from '../../logs/rollouts/log-options.js';
import type { LoggedColumns } from '../../logs/rollouts/rollout.js';
import { type LoggedStep, RolloutLogs } from '../../logs/rollouts/rollout-logs.js';
import { headOf } from '../../logs/rollouts/rows/file-head.js';
import { systemProblem } from '../../logs/stores/system-problem.js';

/** How a log is read, and which of its steps is meant. */
export interface LogChoice extends LogOptions {
  readonly step?: number | undefined;
  /** Bytes that reading it may take, about. */
  readonly maxMemory?: number | undefined;
}

export interface LoggedRows {
  /** As an error names it. */
  readonly path: string;
  readonly rows: LoggedColumns;
  /** What its reader should know of where the rows come from. */
  readonly notes: readonly string[];
  /** Whether its columns are named, so that each of them was meant. */
  readonly isTable: boolean;
}

/** Columns of a table, with the names that trainers give them (verl: uid, score). */
const NAMES = {
  step: ['step'],
  group: ['group', 'group_id', 'uid'],
  prompt: ['prompt'],
  reward: ['reward', 'score'],
  outcome: ['outcome'],
  episode: ['episode', 'episode_id'],
  turn: ['turn'],
  entropy: ['entropy'],
  length: ['length'],
} as const satisfies Partial<Record<OwnColumn, readonly string[]>>;

/**
 * @param given path of a file, a folder or a glob; `-` for stdin
 * @param needed the column without which a table is of no use
 * @throws FileError for what cannot be used, several steps where none is chosen, one without groups or `needed`;
 *   `signal.reason` when aborted
 */
export async function loggedRows(
  given: string,
  needed: 'reward' | 'length',
  choice: LogChoice,
  signal: AbortSignal,
  stdin: Readable = process.stdin,
): Promise<LoggedRows> {
  signal.throwIfAborted();
  const isStdin = given === '-';
  const found = isStdin ? undefined : await stat(given).catch(() => undefined);
  // The only files without a heading are of CSV: what else can be read more than once is read where it is.
  const isFile = found?.isFile() === true;
  const isOnce = isStdin || found?.isFIFO() === true;
  if (!isOnce && !(isFile && given.endsWith('.csv'))) return readRows(given, given, needed, choice, signal);
  const folder = await mkdtemp(join(tmpdir(), 'collapsar-'));
  try {
    const stream = isStdin ? stdin : createReadStream(given);
    const copy = await copied(stream, join(folder, 'rows'), isFile, signal);
    return await readRows(copy ?? given, isStdin ? 'stdin' : given, needed, choice, signal);
  } catch (error) {
    signal.throwIfAborted();
    if (error instanceof FileError || !(error instanceof Error && 'code' in error)) throw error;
    throw new FileError({ path: given }, systemProblem(error), { cause: error });
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

/** Bytes in which the first line ends, or has no heading. */
const HEAD_BYTES = 2 ** 16;

/**
 * Copies a stream that can be read once, or has no heading.
 * @param isFile it can be read where it is: copied only to be given a heading
 */
async function copied(
  stream: Readable,
  path: string,
  isFile: boolean,
  signal: AbortSignal,
): Promise<string | undefined> {
  let heading: string | undefined;
  let ending = '.csv';
  async function* withHeading(chunks: AsyncIterable<Buffer | string>): AsyncGenerator<Buffer> {
    let head = Buffer.alloc(0);
    let isSeen = false;
    for await (const chunk of chunks) {
      if (isSeen) yield Buffer.from(chunk as Buffer);
      else head = Buffer.concat([head, Buffer.from(chunk as Buffer)]);
      if (isSeen || (!/\S.*\n/.test(head.toString('latin1')) && head.length < HEAD_BYTES)) continue;
      isSeen = true;
      yield* begun(head);
      if (isFile && heading === undefined) return;
    }
    if (!isSeen) yield* begun(head);
  }
  async function* begun(head: Buffer): AsyncGenerator<Buffer> {
    const [line = ''] = head.toString('utf8').trimStart().split('\n', 1);
    if (/^[[{]/.test(line)) ending = '.jsonl';
    else heading = await missingHeading(line);
    if (heading !== undefined) yield Buffer.from(heading);
    yield head;
  }
  // A read of a pipe to which nobody writes cannot be called off.
  await unlessAborted(pipeline(stream, withHeading, createWriteStream(path), { signal }), signal);
  if (isFile && heading === undefined) return undefined;
  await rename(path, path + ending);
  return path + ending;
}

/** For lines of group, reward and perhaps outcome only. */
async function missingHeading(line: string): Promise<string | undefined> {
  const { parse } = await import('csv-parse/sync');
  let fields: string[];
  try {
    [fields = []] = parse(line.slice(0, HEAD_BYTES), { bom: true, relax_quotes: true });
  } catch {
    return undefined;
  }
  const [, ...numbers] = fields;
  const isNumber = (field: string): boolean =>
    field === '' || /^\s*[+-]?(nan|inf(inity)?|[\d.]+(e[+-]?\d+)?)\s*$/i.test(field);
  if (numbers.length < 1 || numbers.length > 2 || !numbers.every(isNumber)) return undefined;
  return `group,reward${numbers.length === 2 ? ',outcome' : ''}\n`;
}

async function readRows(
  path: string,
  shownPath: string,
  needed: 'reward' | 'length',
  { step, maxMemory, ...options }: LogChoice,
  signal: AbortSignal,
): Promise<LoggedRows> {
  const logsOf = (columns: ColumnNames | undefined) => {
    const reading = logReading({ ...options, ...(columns && { columns }) });
    return new RolloutLogs({ ...reading, maxMemory: logMemory({ maxMemory }) }, signal);
  };
  let logs = logsOf(undefined);
  try {
    let { steps, problems, notes } = await logs.find(path);
    const isGuessed = options.format === undefined && options.columns === undefined;
    const keys = steps.length === 0 && isGuessed ? await keysIn(path, signal) : [];
    const columns = columnsAmong(keys, needed);
    if (columns !== undefined) {
      await logs.close();
      logs = logsOf(columns);
      ({ steps, problems, notes } = await logs.find(path));
    }
    const [problem] = problems;
    if (problem !== undefined) {
      const isUnknown = keys.length > 0 && columns === undefined;
      const own = problem.problem.replaceAll('collapsar analyze', COMMANDS[needed]);
      const where = { path: problem.path, ...(problem.offset !== undefined && { offset: problem.offset }) };
      throw new FileError(where, isUnknown ? `${own}\n${tableOf(needed)}` : own, { cause: problem });
    }
    const chosen = stepOf(path, steps, step, notes);
    const named = columns ?? options.columns;
    const isTable = named !== undefined;
    // A table of one step need not say which.
    const { step: rows, errors } = await logs.read(
      isTable && (named === 'auto' || !named.step) ? { ...chosen, notes: [] } : chosen,
    );
    // A group that lacks a rollout is another group.
    if (errors[0] !== undefined) throw errors[0];
    const found = rows as LoggedColumns;
    for (const name of [needed, 'group'] as const) {
      if (found[name] === undefined) throw new FileError({ path }, found.absent[name] ?? `the log has no ${name}`);
    }
    return { path: shownPath, rows: found, notes: [...notes, ...found.notes], isTable };
  } catch (error) {
    if (!(error instanceof FileError) || path === shownPath) throw error;
    const where = { path: shownPath, ...(error.offset !== undefined && { offset: error.offset }) };
    throw new FileError(where, error.problem.replaceAll(path, shownPath), { cause: error });
  } finally {
    await logs.close();
  }
}

/** Who reads rows for what. */
const COMMANDS = { reward: 'collapsar filter', length: 'collapsar plan-scores' } as const;

function tableOf(needed: 'reward' | 'length'): string {
  return (
    `Or give a table, in JSON lines or in CSV whose first line names its columns: ${NAMES.group.join(' or ')}, ` +
    `and ${NAMES[needed].join(' or ')}`
  );
}

/** What the first rows of a file have; nothing if it cannot be read. */
async function keysIn(path: string, signal: AbortSignal): Promise<string[]> {
  const head = await headOf(path, containerOf(path) ?? 'json-lines', [], [], signal).catch(() => undefined);
  signal.throwIfAborted();
  return head?.rows.flatMap((row) => [...row]) ?? [];
}

/** @returns undefined if none of them says `needed` */
function columnsAmong(keys: readonly string[], needed: 'reward' | 'length'): ColumnNames | undefined {
  const columns = Object.entries(NAMES).flatMap(([name, known]) => {
    const key = known.flatMap((alias) => keys.filter((one) => one.trim().toLowerCase() === alias))[0];
    return key === undefined ? [] : [[name, key] as const];
  });
  const found: ColumnNames = Object.fromEntries(columns);
  return found[needed] === undefined ? undefined : found;
}

function stepOf(
  path: string,
  steps: readonly LoggedStep[],
  step: number | undefined,
  notes: readonly string[],
): LoggedStep {
  const fitting = step === undefined ? steps : steps.filter((one) => one.step === step);
  const [one, other] = fitting;
  if (one !== undefined && other === undefined) return one;
  const [first, last] = [steps[0], steps.at(-1)];
  const has = `has ${counted(steps.length, 'steps')}, ${first?.step} to ${last?.step}`;
  if (one === undefined) throw new FileError({ path }, [`${has}: none of them is ${step}`, ...notes].join('; '));
  const runs = new Set(fitting.map(({ runDirectory, run }) => `${runDirectory}\n${run}`)).size;
  const advice = runs > 1 ? `of ${runs} runs: name the files of one` : 'say which is meant (--step N)';
  throw new FileError({ path }, `${has}, ${advice}`);
}

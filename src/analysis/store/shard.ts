// Measures one share of the steps of a source into a journal. Which machine measures it, how often and when cannot be
// seen in what `analyze` makes of the journals.
import { access } from 'node:fs/promises';
import { join } from 'node:path';
import { ArgumentError, FileError } from '../../checks/errors.js';
import { is, type OptionTable } from '../../checks/options.js';
import { shown } from '../../checks/words.js';
import { isUnreachable } from '../../logs/stores/is-unreachable.js';
import { checkAnalysis } from '../analyze.js';
import { measuredSource, SOURCE_OPTIONS, type SourceOptions } from '../measured-source.js';
import { measureOptions } from '../measuring/measure-options.js';
import { badRow } from '../measuring/measure-step-data.js';
import { isStream, type StepFile } from '../measuring/step-source.js';
import { makeDirectory } from '../results/make-directory.js';
import { Journal } from './journal.js';
import { JOURNALS } from './journal-set.js';
import { MOST_SHARDS } from './most-shards.js';

/** Which of how many shares. */
export interface Shard {
  /** From 0 on. */
  readonly index: number;
  readonly count: number;
}

/** Options of `measureShard`. */
export interface ShardOptions extends SourceOptions {
  readonly shard: Shard;
  /** Folder whose `journals` takes the journal; the same for all shards. */
  readonly out: string;
  /** False measures again what an earlier call measured. Default true. */
  readonly resume?: boolean | undefined;
}

/** What became of one shard. */
export interface MeasuredShard {
  /** Path of the journal. */
  readonly journal: string;
  /** Steps of the shard. */
  readonly steps: number;
  /** Steps of them that cannot be used: `analyze` tries them again, and names them. */
  readonly failures: number;
  /** Steps of them that an earlier call measured. */
  readonly resumed: number;
}

const OPTIONS: OptionTable<ShardOptions> = {
  ...SOURCE_OPTIONS,
  shard: (shard, argument) => checkShard(shard, argument),
  out: is.needed(is.path),
  resume: is.flag,
  onProgress: is.callback,
  onListing: is.callback,
  onSkipped: is.callback,
};

function checkShard(shard: unknown, argument: string): void {
  const { index, count } = Object(shard) as Partial<Shard>;
  const isCount = Number.isSafeInteger(count) && (count as number) >= 1 && (count as number) <= MOST_SHARDS;
  if (isCount && Number.isSafeInteger(index) && (index as number) >= 0 && (index as number) < (count as number)) return;
  throw new ArgumentError(argument, `got ${shown(shard)}, expected { index, count }, with index from 0 to count − 1`);
}

/** Name of a shard's journal when all its steps have been tried; until then it begins with a dot. */
export function journalName({ index, count }: Shard): string {
  return `${index}-of-${count}`;
}

/** As `measureShard` of src/on-demand.ts says. */
export async function measureShard(source: string | readonly string[], options: ShardOptions): Promise<MeasuredShard> {
  checkAnalysis(source, options, OPTIONS);
  if (isStream(source)) throw new ArgumentError('source', 'a stream of steps has no shards: name their files');
  checkShard(options.shard, 'options.shard');
  const { shard, out, resume, signal } = options;
  const measuring = measureOptions(options);
  const failures: FileError[] = [];
  const fail = (failure: FileError): void => {
    failures.push(failure);
    options.onFailure?.(failure);
  };
  let total = 0;
  const share = (steps: readonly StepFile[]): readonly StepFile[] => {
    total = steps.length;
    return shardOf(steps, shard);
  };
  signal?.throwIfAborted();
  const folder = join(out, JOURNALS);
  await makeDirectory(folder);
  const path = join(folder, journalName(shard));
  const wasComplete = await access(path).then(
    () => true,
    () => false,
  );
  const name = wasComplete ? journalName(shard) : `.${journalName(shard)}`;
  const journal = await Journal.open(folder, { resume, measuring }, { name, isShared: true });
  const counts = { steps: 0, failures: 0, resumed: 0 };
  try {
    for await (const { outcome, wasMeasured } of measuredSource(source, options, {
      ...{ measuring, perPrompt: true, journal, share, fail },
    })) {
      await checkReached(failures.splice(0));
      counts.steps++;
      if (wasMeasured) counts.resumed++;
      if (outcome instanceof FileError) counts.failures++;
      else for (const bad of outcome.badRows ?? []) options.onFailure?.(badRow(bad));
    }
    await checkReached(failures);
    if (total === 0)
      throw new FileError({ path: [source].flat().join(', ') }, 'there is no step here that can be used');
    await journal.closeAs(path);
    return { journal: path, ...counts };
  } finally {
    await journal.close();
  }
}

/**
 * If the machine is at fault, and not a file, the shard is not finished: another machine may reach what this one does
 * not.
 */
async function checkReached(failures: readonly FileError[]): Promise<void> {
  for (const failure of failures) {
    if (!(await isUnreachable(failure, failure.path))) continue;
    const { path, tensor, offset, problem } = failure;
    const advice =
      'Mount what it lies on, or see to its store, and measure the shard again: steps measured so far are kept. ' +
      'If it is gone for good, name the others alone';
    const where = { path, ...(tensor !== undefined && { tensor }), ...(offset !== undefined && { offset }) };
    throw new FileError(where, `out of reach from here: ${problem}. ${advice}`, { cause: failure });
  }
}

type Sized = Pick<StepFile, 'bytes'>;

/** Steps that follow each other, of about the same size in every shard: one belongs where the middle of its bytes is. */
export function shardOf<Step extends Sized>(steps: readonly Step[], { index, count }: Shard): Step[] {
  const total = steps.reduce((sum, { bytes }) => sum + bytes, 0);
  let before = 0;
  return steps.filter(({ bytes }) => {
    const middle = before + bytes / 2;
    before += bytes;
    return Math.min(count - 1, Math.floor((count * middle) / (total || 1))) === index;
  });
}

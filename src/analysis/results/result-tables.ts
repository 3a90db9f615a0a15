// Reports in; out prompts.parquet, a row a step and prompt, matrices.parquet, a row a step that is kept, and
// texts.parquet, a row a rollout of such steps.
import type { AtomicFile } from '../../logs/stores/atomic-file.js';
import type { StepExcerpts } from '../../step/prompts/excerpts.js';
import type { EncodedMatrix } from '../../step/prompts/prompt-findings.js';
import type { StepReport } from '../../step/step-report.js';
import type { RunVerdict } from '../../verdicts/verdict-log.js';
import { type ParquetColumn, TEXT } from './parquet-table.js';
import { OpenTable, StepTable, type TableRow } from './step-tables.js';

export const PROMPTS = 'prompts.parquet';
export const MATRICES = 'matrices.parquet';
export const TEXTS = 'texts.parquet';

/** Size of a row of prompts.parquet in memory, about. */
const PROMPT_BYTES = 256;

// Measured figures and matrices hardly compress, and trying takes longer than all the rest.
const AS_IS = { encoding: 'PLAIN', codec: 'UNCOMPRESSED', statistics: false } as const;
/** Without the least and the greatest value, which cost more than the values. */
const UNSORTED = { statistics: false } as const;

type Repetition = 'REQUIRED' | 'OPTIONAL';
const figure = (name: string): ParquetColumn => ({ name, type: 'DOUBLE', repetition_type: 'OPTIONAL', ...AS_IS });
const count = (name: string): ParquetColumn => ({ name, type: 'INT32', repetition_type: 'REQUIRED', ...UNSORTED });
const text = (name: string, repetition_type: Repetition = 'REQUIRED'): ParquetColumn => ({
  name,
  repetition_type,
  ...TEXT,
  ...UNSORTED,
});
const bytes = (name: string): ParquetColumn => ({
  name,
  type: 'BYTE_ARRAY',
  repetition_type: 'REQUIRED',
  ...AS_IS,
});
const STEP: readonly ParquetColumn[] = [
  text('run'),
  { name: 'step', type: 'INT64', repetition_type: 'REQUIRED', ...UNSORTED },
];

const PROMPT_COLUMNS: readonly ParquetColumn[] = [
  ...STEP,
  text('prompt'),
  count('rows'),
  ...['mi', 'mi_low', 'mi_high', 'reward_mean', 'reward_std'].map(figure),
  { name: 'kept', type: 'BOOLEAN', repetition_type: 'OPTIONAL', ...UNSORTED },
  text('drop_reason', 'OPTIONAL'),
  text('cause', 'OPTIONAL'),
  figure('retrieval'),
];

const MATRIX_COLUMNS: readonly ParquetColumn[] = [
  ...STEP,
  count('prompts'),
  text('ids'),
  text('source'),
  bytes('posterior'),
  bytes('nats'),
];

const TEXT_COLUMNS: readonly ParquetColumn[] = [
  ...STEP,
  { name: 'row', type: 'INT64', repetition_type: 'REQUIRED', ...UNSORTED },
  text('group'),
  text('prompt', 'OPTIONAL'),
  text('reasoning'),
  figure('reward'),
  figure('specificity'),
  ...['rows', 'tokens', 'prompt_length', 'reasoning_length'].map(count),
  bytes('token_places'),
  bytes('token_nats'),
];

export class ResultTables {
  readonly #directory: string;
  readonly #matrices: StepTable<EncodedMatrix>;
  readonly #texts: StepTable<StepExcerpts>;
  #prompts: OpenTable | undefined;
  #last: Promise<void> = Promise.resolve();
  /** The first one: a table that lacks rows must not pass for whole. */
  #failure: { readonly error: unknown } | undefined;

  constructor(directory: string) {
    this.#directory = directory;
    this.#matrices = new StepTable(directory, MATRICES, MATRIX_COLUMNS, matrixRows);
    this.#texts = new StepTable(directory, TEXTS, TEXT_COLUMNS, textRows);
  }

  /**
   * In the order of the calls, whether or not they are waited for.
   * @throws FileError when it cannot be written
   */
  add({ run, step, prompts, matrix, excerpts }: TabledParts): Promise<void> {
    return this.#inTurn(async () => {
      if (prompts !== undefined && prompts.length > 0) {
        const { rows } = await this.#promptTable();
        const number = BigInt(step);
        for (const of of prompts) {
          const { prompt, rows: each, mi, miLow, miHigh, rewardMean, rewardStd, kept, dropReason, cause } = of;
          const figures = [mi, miLow, miHigh, rewardMean, rewardStd];
          await rows.add([run, number, prompt, each, ...figures, kept, dropReason, cause, of.retrieval], PROMPT_BYTES);
        }
      }
      if (matrix !== undefined) await this.#matrices.add(run, step, matrix.encoded);
      if (excerpts !== undefined) await this.#texts.add(run, step, excerpts);
    });
  }

  /**
   * Called when all steps of the present run are finished.
   * @throws FileError when it cannot be written
   */
  endRun(verdicts: readonly RunVerdict[]): Promise<void> {
    return this.#inTurn(async () => {
      await this.#matrices.endRun(verdicts);
      await this.#texts.endRun(verdicts);
    });
  }

  /**
   * All files on disk, still under other names; without rows where there were none.
   * @throws FileError when one cannot be written, or an earlier call could not
   */
  async prepare(): Promise<AtomicFile[]> {
    await this.#last;
    if (this.#failure !== undefined) throw this.#failure.error;
    const tables = [await this.#promptTable(), await this.#matrices.table(), await this.#texts.table()];
    for (const { file, rows } of tables) {
      await rows.finish();
      await file.prepare();
    }
    return tables.map(({ file }) => file);
  }

  async discard(): Promise<void> {
    await this.#last;
    await this.#prompts?.file.discard();
    await this.#matrices.discard();
    await this.#texts.discard();
  }

  #inTurn(work: () => Promise<void>): Promise<void> {
    const writing = this.#last.then(work);
    this.#last = writing.catch((error: unknown) => {
      this.#failure ??= { error };
    });
    return writing;
  }

  async #promptTable(): Promise<OpenTable> {
    this.#prompts ??= await OpenTable.open(this.#directory, PROMPTS, PROMPT_COLUMNS);
    return this.#prompts;
  }
}

/** What of a report has a table of its own. */
type TabledParts = Pick<StepReport, 'run' | 'step' | 'prompts' | 'matrix' | 'excerpts'>;

function matrixRows(run: string, step: bigint, { ids, source, posterior, nats }: EncodedMatrix): TableRow[] {
  const [shares, excess] = [Buffer.from(posterior, 'base64'), Buffer.from(nats, 'base64')];
  const row = [run, step, ids.length, JSON.stringify(ids), source, shares, excess];
  return [{ row, bytes: shares.length + excess.length }];
}

function textRows(run: string, step: bigint, { rows, rollouts }: StepExcerpts): TableRow[] {
  return rollouts.map(({ row, group, prompt, reasoning, reward, specificity, tokens, ...rest }) => {
    const [places, nats] = [Buffer.from(rest.places, 'base64'), Buffer.from(rest.nats, 'base64')];
    const words = [BigInt(row), group, prompt, reasoning, reward, specificity];
    const counts = [rows, tokens, rest.promptLength, rest.length];
    return {
      row: [run, step, ...words, ...counts, places, nats],
      bytes: PROMPT_BYTES + 2 * (reasoning.length + (prompt?.length ?? 0)) + places.length + nats.length,
    };
  });
}

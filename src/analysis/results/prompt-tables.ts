// Reports in; out prompts.parquet, a row a step and prompt, and matrices.parquet, a row a step that is kept. Which are
// is known when a run is through: until then its matrices wait on disk.
import { AtomicFile } from '../../logs/stores/atomic-file.js';
import type { EncodedMatrix } from '../../monitor/prompts/prompt-findings.js';
import type { RunVerdict } from '../../verdicts/verdict-log.js';
import type { StepReport } from '../step-report.js';
import { keptMatrices } from './kept-matrices.js';
import { type ParquetColumn, ParquetTable, TEXT } from './parquet-table.js';

export const PROMPTS = 'prompts.parquet';
export const MATRICES = 'matrices.parquet';
/** Never gets this name: what is kept of its lines goes into matrices.parquet. */
const WAITING = 'matrices.parquet.run';

const GROUP_BYTES = 2 ** 23;
/** Of a row of prompts.parquet, about, with what holds it in memory. */
const PROMPT_BYTES = 256;

// Measured figures and matrices hardly compress, and trying takes longer than all the rest.
const AS_IS = { encoding: 'PLAIN', codec: 'UNCOMPRESSED', statistics: false } as const;
/** Without the least and the greatest value, which cost more than the values. */
const UNSORTED = { statistics: false } as const;

const figure = (name: string): ParquetColumn => ({ name, type: 'DOUBLE', repetition_type: 'OPTIONAL', ...AS_IS });
const text = (name: string, repetition_type: 'REQUIRED' | 'OPTIONAL' = 'REQUIRED'): ParquetColumn => ({
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
  { name: 'rows', type: 'INT32', repetition_type: 'REQUIRED', ...UNSORTED },
  ...['mi', 'mi_low', 'mi_high', 'reward_mean', 'reward_std'].map(figure),
  { name: 'kept', type: 'BOOLEAN', repetition_type: 'OPTIONAL', ...UNSORTED },
  text('drop_reason', 'OPTIONAL'),
  text('cause', 'OPTIONAL'),
  figure('retrieval'),
];

const MATRIX_COLUMNS: readonly ParquetColumn[] = [
  ...STEP,
  { name: 'prompts', type: 'INT32', repetition_type: 'REQUIRED', ...UNSORTED },
  text('ids'),
  text('source'),
  bytes('posterior'),
  bytes('nats'),
];

/** A file under way. */
interface Table {
  readonly file: AtomicFile;
  readonly rows: ParquetTable;
}

export class PromptTables {
  readonly #directory: string;
  #prompts: Table | undefined;
  #matrices: Table | undefined;
  /** Matrices of the present run, a line each. */
  #waiting: AtomicFile | undefined;
  #run = '';
  #steps: number[] = [];
  #last: Promise<void> = Promise.resolve();
  /** The first one: a table that lacks rows must not pass for whole. */
  #failure: { readonly error: unknown } | undefined;

  constructor(directory: string) {
    this.#directory = directory;
  }

  /**
   * In the order of the calls, whether or not they are waited for.
   * @throws FileError when it cannot be written
   */
  add({ run, step, prompts, matrix }: Pick<StepReport, 'run' | 'step' | 'prompts' | 'matrix'>): Promise<void> {
    return this.#inTurn(async () => {
      if (prompts !== undefined && prompts.length > 0) {
        const { rows } = await this.#promptTable();
        const number = BigInt(step);
        for (const of of prompts) {
          const { prompt, rows: count, mi, miLow, miHigh, rewardMean, rewardStd, kept, dropReason, cause } = of;
          const figures = [mi, miLow, miHigh, rewardMean, rewardStd];
          await rows.add([run, number, prompt, count, ...figures, kept, dropReason, cause, of.retrieval], PROMPT_BYTES);
        }
      }
      if (matrix === undefined) return;
      this.#run = run;
      this.#steps.push(step);
      this.#waiting ??= await AtomicFile.open(this.#directory, WAITING);
      await this.#waiting.write(`${JSON.stringify(matrix.encoded)}\n`);
    });
  }

  /**
   * All steps of the present run are through.
   * @throws FileError when it cannot be written
   */
  endRun(verdicts: readonly RunVerdict[]): Promise<void> {
    return this.#inTurn(async () => {
      const [waiting, steps] = [this.#waiting, this.#steps];
      this.#waiting = undefined;
      this.#steps = [];
      if (waiting === undefined) return;
      try {
        const { rows } = await this.#matrixTable();
        const kept = keptMatrices(steps, verdicts);
        let at = 0;
        for await (const line of waiting.lines()) {
          if (kept.has(at)) {
            const { ids, source, posterior, nats } = JSON.parse(line) as EncodedMatrix;
            const [shares, excess] = [Buffer.from(posterior, 'base64'), Buffer.from(nats, 'base64')];
            const row = [
              this.#run,
              BigInt(steps[at] as number),
              ids.length,
              JSON.stringify(ids),
              source,
              shares,
              excess,
            ];
            await rows.add(row, shares.length + excess.length);
          }
          at++;
        }
      } finally {
        await waiting.discard();
      }
    });
  }

  /**
   * Both files on disk, still under other names; without rows where there were none.
   * @throws FileError when one cannot be written, or an earlier call could not
   */
  async prepare(): Promise<AtomicFile[]> {
    await this.#last;
    if (this.#failure !== undefined) throw this.#failure.error;
    const tables = [await this.#promptTable(), await this.#matrixTable()];
    for (const { file, rows } of tables) {
      await rows.finish();
      await file.prepare();
    }
    return tables.map(({ file }) => file);
  }

  async discard(): Promise<void> {
    await this.#last;
    for (const file of [this.#waiting, this.#prompts?.file, this.#matrices?.file]) await file?.discard();
  }

  #inTurn(work: () => Promise<void>): Promise<void> {
    const writing = this.#last.then(work);
    this.#last = writing.catch((error: unknown) => {
      this.#failure ??= { error };
    });
    return writing;
  }

  async #promptTable(): Promise<Table> {
    this.#prompts ??= await this.#open(PROMPTS, PROMPT_COLUMNS);
    return this.#prompts;
  }

  async #matrixTable(): Promise<Table> {
    this.#matrices ??= await this.#open(MATRICES, MATRIX_COLUMNS);
    return this.#matrices;
  }

  async #open(name: string, columns: readonly ParquetColumn[]): Promise<Table> {
    const file = await AtomicFile.open(this.#directory, name);
    const root = name.slice(0, name.indexOf('.'));
    return { file, rows: await ParquetTable.open(root, columns, (piece) => file.writeBytes(piece), GROUP_BYTES) };
  }
}

// Writes the rows of a table for some steps of a run. The choice of steps is known only when the run is finished; until
// then candidates wait on disk, a line per step.
import { AtomicFile } from '../../logs/stores/atomic-file.js';
import type { RunVerdict } from '../../verdicts/verdict-log.js';
import { keptSteps } from './kept-steps.js';
import { type ParquetColumn, ParquetTable } from './parquet-table.js';

const GROUP_BYTES = 2 ** 23;

/** A Parquet file that grows under another name. */
export class OpenTable {
  private constructor(
    readonly file: AtomicFile,
    readonly rows: ParquetTable,
  ) {}

  /** @throws FileError when it cannot be written */
  static async open(directory: string, name: string, columns: readonly ParquetColumn[]): Promise<OpenTable> {
    const file = await AtomicFile.open(directory, name);
    const root = name.slice(0, name.indexOf('.'));
    const rows = await ParquetTable.open(root, columns, (piece) => file.writeBytes(piece), GROUP_BYTES);
    return new OpenTable(file, rows);
  }
}

/** Values as JSON has them. */
export class StepTable<Value> {
  #table: OpenTable | undefined;
  /** Steps of the present run. */
  #waiting: AtomicFile | undefined;
  #run = '';
  #steps: number[] = [];

  /**
   * @param rowsOf rows of a step that is kept, in the order of the columns, with the bytes that they take, about
   */
  constructor(
    private readonly directory: string,
    private readonly name: string,
    private readonly columns: readonly ParquetColumn[],
    private readonly rowsOf: (run: string, step: bigint, value: Value) => readonly TableRow[],
  ) {}

  async add(run: string, step: number, value: Value): Promise<void> {
    this.#run = run;
    this.#steps.push(step);
    // Never gets this name: what is kept of its lines goes into the table.
    this.#waiting ??= await AtomicFile.open(this.directory, `${this.name}.run`);
    await this.#waiting.write(`${JSON.stringify(value)}\n`);
  }

  /** Called when all steps of the present run are finished. */
  async endRun(verdicts: readonly RunVerdict[]): Promise<void> {
    const [waiting, steps] = [this.#waiting, this.#steps];
    this.#waiting = undefined;
    this.#steps = [];
    if (waiting === undefined) return;
    try {
      const { rows } = await this.table();
      const kept = keptSteps(steps, verdicts);
      let at = 0;
      for await (const line of waiting.lines()) {
        if (kept.has(at)) {
          const value = JSON.parse(line) as Value;
          for (const { row, bytes } of this.rowsOf(this.#run, BigInt(steps[at] as number), value)) {
            await rows.add(row, bytes);
          }
        }
        at++;
      }
    } finally {
      await waiting.discard();
    }
  }

  async table(): Promise<OpenTable> {
    this.#table ??= await OpenTable.open(this.directory, this.name, this.columns);
    return this.#table;
  }

  async discard(): Promise<void> {
    for (const file of [this.#waiting, this.#table?.file]) await file?.discard();
  }
}

export interface TableRow {
  readonly row: readonly unknown[];
  readonly bytes: number;
}

// Writes rows to a Parquet file in row groups as they come, so that memory does not grow with the rows; the same rows
// give the same bytes.
import type { ColumnSource, ParquetWriter, SchemaElement } from 'hyparquet-writer';
import { packageVersion } from '../../checks/package-version.js';

/** The kinds of columns that our tables have. */
export const TEXT = { type: 'BYTE_ARRAY', converted_type: 'UTF8', logical_type: { type: 'STRING' } } as const;

export type ParquetColumn = Omit<SchemaElement, 'num_children'> &
  Pick<ColumnSource, 'encoding' | 'codec' | 'statistics'>;

/**
 * @param name of the schema's root
 * @param write takes the file's bytes, in order; they are valid until it resolves
 */
export async function openParquet(
  name: string,
  columns: readonly SchemaElement[],
  write: (bytes: Uint8Array) => Promise<void>,
): Promise<ParquetWriter> {
  const version = packageVersion();
  // Only who writes results needs it.
  const { ByteWriter, ParquetWriter } = await import('hyparquet-writer');
  const bytes = new ByteWriter();
  const flush = async () => {
    await write(bytes.getBytes());
    bytes.index = 0;
  };
  return new ParquetWriter({
    writer: Object.assign(bytes, { flush, finish: flush }),
    schema: [{ name, num_children: columns.length }, ...columns],
    // As parquet-mr parses it: application, version, build.
    createdBy: `collapsar version ${version} (build ${version})`,
  });
}

/** A table whose columns are known before its rows. */
export class ParquetTable {
  readonly #writer: ParquetWriter;
  readonly #columns: readonly ParquetColumn[];
  readonly #groupBytes: number;
  #rows: (readonly unknown[])[] = [];
  #bytes = 0;

  private constructor(writer: ParquetWriter, columns: readonly ParquetColumn[], groupBytes: number) {
    this.#writer = writer;
    this.#columns = columns;
    this.#groupBytes = groupBytes;
  }

  /** @param groupBytes of a row group, about */
  static async open(
    name: string,
    columns: readonly ParquetColumn[],
    write: (bytes: Uint8Array) => Promise<void>,
    groupBytes: number,
  ): Promise<ParquetTable> {
    const schema = columns.map(({ encoding, codec, statistics, ...column }): SchemaElement => column);
    return new ParquetTable(await openParquet(name, schema, write), columns, groupBytes);
  }

  /**
   * @param row in the order of the columns
   * @param bytes that it takes, about
   */
  async add(row: readonly unknown[], bytes: number): Promise<void> {
    this.#rows.push(row);
    this.#bytes += bytes;
    if (this.#bytes >= this.#groupBytes) await this.#flush();
  }

  async finish(): Promise<void> {
    await this.#flush();
    await this.#writer.finish();
  }

  async #flush(): Promise<void> {
    const rows = this.#rows;
    if (rows.length === 0) return;
    this.#rows = [];
    this.#bytes = 0;
    const columnData = this.#columns.map(({ name, encoding, codec, statistics }, at): ColumnSource => {
      const data = rows.map((row) => row[at]);
      return {
        name,
        data,
        ...(encoding && { encoding }),
        ...(codec && { codec }),
        ...(statistics === false && { statistics }),
      };
    });
    await this.#writer.write({ columnData, rowGroupSize: rows.length, pageSize: 0 });
  }
}

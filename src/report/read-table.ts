// Reads the rows of a Parquet file of results, a row group at a time; a missing file has none.
import { open } from 'node:fs/promises';
import { FileError } from '../checks/errors.js';

/**
 * @param columns names of those to read; default all
 * @throws {FileError} for a file that exists and is not Parquet
 */
export async function* readTable(
  path: string,
  columns?: readonly string[],
): AsyncGenerator<Readonly<Record<string, unknown>>> {
  const handle = await open(path).catch(() => undefined);
  if (handle === undefined) return;
  try {
    const { size } = await handle.stat();
    const file = {
      byteLength: size,
      async slice(from: number, to = size): Promise<ArrayBuffer> {
        const bytes = new Uint8Array(to - from);
        await handle.read(bytes, 0, bytes.length, from);
        return bytes.buffer;
      },
    };
    const { parquetMetadataAsync, parquetReadObjects } = await import('hyparquet');
    const { compressors } = await import('hyparquet-compressors');
    const metadata = await parquetMetadataAsync(file);
    let rowStart = 0;
    for (const group of metadata.row_groups) {
      const rowEnd = rowStart + Number(group.num_rows);
      // Byte columns stay bytes; columns of text say so in the file.
      const reading = { file, metadata, rowStart, rowEnd, compressors, utf8: false };
      yield* await parquetReadObjects({ ...reading, ...(columns && { columns: [...columns] }) });
      rowStart = rowEnd;
    }
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    throw new FileError({ path }, `is no Parquet that analyze --out writes (${reason}): analyse once more`);
  } finally {
    await handle.close();
  }
}

// Where the chunks of a row group lie is checked before anything is read.
import type { FileMetaData, RowGroup } from 'hyparquet';
import { describe, expect, it } from 'vitest';
import { readGroup } from '../../../src/logs/rollouts/parquet/stored-group.js';
import type { ByteSource } from '../../../src/logs/stores/byte-source.js';

const BYTES = 1000;

/** A file of rising bytes; reads of it. */
function source(reads: [begin: number, length: number][] = []): ByteSource {
  return {
    path: 'x.parquet',
    bytes: BYTES,
    async read(target: Uint8Array, begin: number) {
      reads.push([begin, target.length]);
      for (let at = 0; at < target.length; at++) target[at] = (begin + at) % 256;
    },
  } as unknown as ByteSource;
}

const chunk = (name: string, begin: number, length: number, values = 1) => ({
  meta_data: {
    path_in_schema: [name],
    data_page_offset: BigInt(begin),
    total_compressed_size: BigInt(length),
    num_values: BigInt(values),
  },
});

const read = (columns: object[], of = source()) =>
  readGroup(
    of,
    { row_groups: [] } as unknown as FileMetaData,
    { columns } as unknown as RowGroup,
    new Set('ab'),
    undefined,
  );

describe('readGroup', () => {
  it('reads chunks that lie one behind the other at once, and in the order of the columns', async () => {
    const reads: [number, number][] = [];
    const { bytes } = await read([chunk('a', 4, 10), chunk('b', 14, 6), chunk('c', 20, 5)], source(reads));
    expect(reads).toEqual([[4, 16]]);
    expect([...bytes]).toEqual(Array.from({ length: 16 }, (_, at) => 4 + at));
  });

  it('refuses columns that together are longer than the file', async () => {
    await expect(read([chunk('a', 4, 600), chunk('b', 300, 400)])).resolves.toBeDefined();
    await expect(read([chunk('a', 4, 600), chunk('b', 300, 401)])).rejects.toThrow('its columns overlap');
  });

  it('refuses a chunk that is not in the file', async () => {
    await expect(read([chunk('a', 3, 5)])).rejects.toThrow('column "a": its data are not in the file');
    await expect(read([chunk('a', 900, 100)])).resolves.toBeDefined();
    await expect(read([chunk('a', 900, 101)])).rejects.toThrow('column "a": its data are not in the file');
    await expect(read([chunk('a', 4, 5, 2 ** 28)])).resolves.toBeDefined();
    await expect(read([chunk('a', 4, 5, 2 ** 28 + 1)])).rejects.toThrow('more than are read at a time');
  });
});

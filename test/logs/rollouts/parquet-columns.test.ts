// Columns of Parquet hold what hyparquet's rows hold, however pages are coded and packed; what they hold of texts that
// are no text.
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import { parquetMetadata, parquetReadObjects } from 'hyparquet';
import { compressors } from 'hyparquet-compressors';
import { parquetWriteBuffer } from 'hyparquet-writer';
import { describe, expect, it } from 'vitest';
import { seedsOf } from '../../../fuzz/seeds.js';
import { loadAddon } from '../../../src/engine/addon.js';
import { textOf } from '../../../src/logs/rollouts/logged-text.js';
import { ColumnFields } from '../../../src/logs/rollouts/parquet/column-fields.js';
import { decodeColumns } from '../../../src/logs/rollouts/parquet/decode-columns.js';
import { readGroup } from '../../../src/logs/rollouts/parquet/stored-group.js';
import { openSource } from '../../../src/logs/stores/byte-source.js';
import { temporaryDirectory } from '../../support/temporary-directory.js';
import { putLogs, readAll } from './rollout-logs.js';

const root = temporaryDirectory();

type Columns = Parameters<typeof parquetWriteBuffer>[0]['columnData'];

/** All rows of a file, by our columns and by hyparquet's objects. */
async function bothWays(path: string): Promise<{ ours: unknown[]; theirs: unknown[]; asBytes: number }> {
  const bytes = readFileSync(path);
  const file = bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length) as ArrayBuffer;
  const metadata = parquetMetadata(file);
  // By itself it drops a byte order mark at the beginning of a text.
  const stringFromBytes = (text: Uint8Array | undefined) => text && textOf(text);
  const options = { file, metadata, compressors, geoparquet: false, parsers: { stringFromBytes } };
  const rows = await parquetReadObjects(options);
  const names = Object.keys(rows[0] ?? {});
  const theirs = rows.map((row) => names.map((name) => row[name] ?? undefined));
  const ours: unknown[] = [];
  let asBytes = 0;
  const source = await openSource(path);
  for (const group of metadata.row_groups) {
    const stored = await readGroup(source, metadata, group, new Set(names), undefined);
    const fields = new ColumnFields(await decodeColumns(stored, names));
    for (fields.row = 0; fields.row < Number(group.num_rows); fields.row++) {
      ours.push(names.map((name) => fields.value(name)));
      for (const name of names) {
        if (!fields.isText(name)) continue;
        const written = fields.written(name);
        if (written instanceof Uint8Array) asBytes++;
        expect(written === undefined ? undefined : textOf(written)).toBe(fields.text(name));
      }
    }
  }
  await source.close();
  return { ours, theirs, asBytes };
}

describe('columns of Parquet', () => {
  const pages = seedsOf(join('test', 'golden', 'parquet', 'pages'));

  it.each([...pages])('of %s, as pyarrow wrote it, are the rows of hyparquet', async (name, bytes) => {
    writeFileSync(join(root, name), bytes);
    const { ours, theirs, asBytes } = await bothWays(join(root, name));
    expect(ours).toHaveLength(60);
    expect(ours).toEqual(theirs);
    expect(asBytes).toBeGreaterThan(30);
  });

  it('are the rows of hyparquet for any values, pages and codings', async () => {
    const text = fc.oneof(
      fc.string({ unit: 'grapheme', maxLength: 12 }),
      fc.string({ unit: 'grapheme', minLength: 100, maxLength: 300 }),
    );
    const row = fc.record({
      text: fc.option(text),
      same: fc.constantFrom('', 'é', 'x'.repeat(200), null),
      id: fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n }),
      number: fc.option(fc.double()),
      flag: fc.option(fc.boolean()),
      list: fc.option(fc.array(fc.option(fc.integer({ min: 0, max: 1e6 })), { maxLength: 5 })),
    });
    const table = fc.record({
      rows: fc.array(row, { minLength: 1, maxLength: 40 }),
      rowGroupSize: fc.integer({ min: 1, max: 40 }),
      pageSize: fc.constantFrom(16, 300, 4000),
      codec: fc.constantFrom('SNAPPY' as const, 'UNCOMPRESSED' as const),
      encoding: fc.constantFrom(
        undefined,
        'PLAIN' as const,
        'DELTA_LENGTH_BYTE_ARRAY' as const,
        'DELTA_BYTE_ARRAY' as const,
      ),
    });
    const path = join(root, 'any.parquet');
    await fc.assert(
      fc.asyncProperty(table, async ({ rows, encoding, ...options }) => {
        const of = (name: keyof (typeof rows)[number]) => rows.map((values) => values[name]);
        const columnData = [
          { name: 'text', data: of('text'), type: 'STRING', nullable: true, encoding },
          { name: 'same', data: of('same'), type: 'STRING', nullable: true },
          { name: 'id', data: of('id'), type: 'INT64' },
          { name: 'number', data: of('number'), type: 'DOUBLE', nullable: true },
          { name: 'flag', data: of('flag'), type: 'BOOLEAN', nullable: true },
          { name: 'json', data: of('list'), type: 'JSON', nullable: true },
        ] as unknown as Columns;
        writeFileSync(path, new Uint8Array(parquetWriteBuffer({ columnData, ...options })));
        const { ours, theirs } = await bothWays(path);
        expect(ours).toEqual(theirs);
        expect(ours).toHaveLength(rows.length);
      }),
      { numRuns: 150 },
    );
  });

  it('have a value for each row that the footer promises, or are refused', async () => {
    const columnData = [
      { name: 'step', data: [1, 1, 1], type: 'INT32' },
      { name: 'group', data: ['a', 'a', 'b'], type: 'STRING' },
      { name: 'output', data: ['x', 'y', 'z'], type: 'STRING' },
    ] as Columns;
    const bytes = Buffer.from(parquetWriteBuffer({ columnData, statistics: false }));
    const metadata = parquetMetadata(bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length));
    const path = join(root, 'short.parquet');
    writeFileSync(path, bytes);
    const source = await openSource(path);
    const [group] = metadata.row_groups;
    if (group === undefined) throw new Error('no row group');
    const names = ['step', 'output'];
    const read = async (change: object) => {
      const stored = await readGroup(source, metadata, { ...group, ...change }, new Set(names), undefined);
      return decodeColumns(stored, names);
    };
    expect((await read({})).get('output')?.values).toHaveLength(3);
    await expect(read({ num_rows: 2n ** 23n })).rejects.toThrow('column "step": has 3 values for the 8388608 rows');
    await expect(read({ columns: group.columns.slice(0, 1) })).rejects.toThrow('column "output": has 0 values');
    await source.close();
  });

  it('take no memory for more than Snappy can unpack to', async () => {
    const text = 'a'.repeat(100_000);
    const columnData = [{ name: 'output', data: [text], type: 'STRING', nullable: false }] as Columns;
    const written = { columnData, statistics: false, codec: 'UNCOMPRESSED' as const };
    const bytes = Buffer.from(parquetWriteBuffer(written));
    const metadata = parquetMetadata(bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length));
    const [group] = metadata.row_groups;
    const [column] = group?.columns ?? [];
    const meta = column?.meta_data;
    if (group === undefined || column === undefined || meta === undefined) throw new Error('no column');
    const begin = Number(meta.data_page_offset);
    const chunk = bytes.subarray(begin, begin + Number(meta.total_compressed_size));
    const plain = chunk.subarray(chunk.indexOf(Buffer.of(0xa0, 0x86, 0x01, 0x00)));
    expect(plain.length).toBe(text.length + 4);
    const header = chunk.subarray(0, chunk.length - plain.length);
    // The first fields of a page header: its kind, and its bytes unpacked and packed, as zigzag varints.
    const sizes = Buffer.concat([Buffer.of(0x15), varint(2 * plain.length), Buffer.of(0x15), varint(2 * plain.length)]);
    expect(header.subarray(2, 2 + sizes.length)).toEqual(sizes);
    const path = join(root, 'snappy.parquet');
    /** Of a page that says that it unpacks to so many bytes. */
    const read = async (says: number) => {
      const packed = packedRun(plain, says);
      const page = Buffer.concat([
        header.subarray(0, 2),
        ...[Buffer.of(0x15), varint(2 * says), Buffer.of(0x15), varint(2 * packed.length)],
        ...[header.subarray(2 + sizes.length), packed],
      ]);
      writeFileSync(path, Buffer.concat([bytes.subarray(0, begin), page, bytes.subarray(begin)]));
      const places = { total_compressed_size: BigInt(page.length), codec: 'SNAPPY' as const };
      const of = { ...group, columns: [{ ...column, meta_data: { ...meta, ...places } }] };
      const source = await openSource(path);
      try {
        const stored = await readGroup(source, metadata, of, new Set(['output']), undefined);
        return (await decodeColumns(stored, ['output'])).get('output')?.values;
      } finally {
        await source.close();
      }
    };
    // The best that there is, 64 bytes for 3.
    const packed = packedRun(plain, plain.length).length;
    expect(plain.length / packed).toBeGreaterThan(21);
    const whole = (await read(plain.length))?.[0];
    expect(textOf(whole as Uint8Array)).toBe(text);
    const most = 22 * packed + 64;
    await expect(read(most)).rejects.toThrow('column "output": is damaged');
    await expect(read(most)).rejects.toThrow('a page whose Snappy is damaged');
    await expect(read(most + 1)).rejects.toThrow(`a page of ${packed} bytes that unpacks to ${most + 1}`);
    await expect(read(2 ** 30)).rejects.toThrow(/a page of \d+ bytes that unpacks to 1073741824/);
  });

  it('name the row, the column and the byte where a text is no UTF-8, and give the other rows', async () => {
    const long = Buffer.from('a'.repeat(300));
    long[200] = 0xff;
    const data = [Buffer.from('b'), Buffer.of(0x63, 0xe9), long, Buffer.from('é'.repeat(100))];
    const columnData = [
      { name: 'step', data: [1, 1, 1, 1], type: 'INT32' },
      { name: 'group', data: ['a', 'a', 'b', 'b'], type: 'STRING' },
      { name: 'output', data: data.map((bytes) => new Uint8Array(bytes)), type: 'BYTE_ARRAY' },
    ] as Columns;
    const { steps, errors } = await readAll(
      putLogs(join(root, 'binary'), { 'x.parquet': new Uint8Array(parquetWriteBuffer({ columnData })) }),
    );
    expect(steps.map(({ output, badRows }) => [output, badRows])).toEqual([[['b', 'é'.repeat(100)], 2]]);
    expect(errors.map(({ message }) => message.replace(/^.*x\.parquet: /, ''))).toEqual([
      'row 2: output is not UTF-8: its byte 2 is 0xe9; write texts in UTF-8',
      'row 3: output is not UTF-8: its byte 201 is 0xff; write texts in UTF-8',
    ]);
  });
});

/** An unsigned LEB128. */
function varint(value: number): Buffer {
  const bytes: number[] = [];
  for (let left = value; ; left = Math.floor(left / 128)) {
    bytes.push(left < 128 ? left : (left % 128) + 128);
    if (left < 128) return Buffer.from(bytes);
  }
}

/** Snappy of four bytes and then one, again and again, by copies of 64 bytes. @param says the length that it gives */
function packedRun(plain: Buffer, says: number): Buffer {
  const pieces = [varint(says), Buffer.of(4 << 2), plain.subarray(0, 5)];
  for (let left = plain.length - 5; left > 0; left -= 64)
    pieces.push(Buffer.of(((Math.min(left, 64) - 1) << 2) | 2, 1, 0));
  return Buffer.concat(pieces);
}

describe('unpackSnappy', () => {
  const { unpackSnappy } = loadAddon();

  it('says whether the bytes are Snappy of that length', () => {
    const page = new Uint8Array(4);
    expect(unpackSnappy(Uint8Array.of(4, 0, 0x61, 0x0a, 1, 0), page)).toBe(true);
    expect(Buffer.from(page).toString()).toBe('aaaa');
    expect(unpackSnappy(Uint8Array.of(4, 0, 0x61, 0x0a, 2, 0), page)).toBe(false);
    expect(unpackSnappy(Uint8Array.of(4, 0, 0x61, 0x0a, 1, 0), new Uint8Array(5))).toBe(false);
    expect(unpackSnappy(new Uint8Array(0), new Uint8Array(0))).toBe(false);
  });

  it('refuses what are no bytes', () => {
    expect(() => unpackSnappy([1] as unknown as Uint8Array, new Uint8Array(1))).toThrow(/Uint8Array/);
  });
});

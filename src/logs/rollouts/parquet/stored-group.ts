// A row group as it lies in the file: the chunks of the columns wanted, read but not unpacked.
import type { FileMetaData, RowGroup } from 'hyparquet';
import { FileError } from '../../../checks/errors.js';
import type { ByteSource } from '../../stores/byte-source.js';
import { newBlock } from '../json-lines/line-blocks.js';

/** If the caller does not say how much memory there is. */
export const MOST_GROUP_BYTES = 2 ** 33;

/** A value as it is held: a number, or what a text's object takes. */
const VALUE_BYTES = 16;
/** An integer of 64 bits, which comes as a bigint. */
const BIGINT_BYTES = 48;
/** A value of a list, with how deep it is nested, and the list; one of objects in a list, with the objects. */
const LISTED_BYTES = 40;
const NESTED_BYTES = 200;
/** `name.list.element` */
const LIST_DEPTH = 3;

/** What is wrong with a row group that there is no memory for. */
export function groupProblem(needed: number, maxMemory: number): string {
  return `a row group takes ${needed} bytes and more, --max-memory has room for ${maxMemory}: give more, or write smaller row groups (row_group_size)`;
}

const MOST_GROUP_VALUES = 2 ** 28;

export interface StoredGroup {
  /** Of the file, with only this row group and its wanted columns. */
  readonly metadata: FileMetaData;
  readonly fileBytes: number;
  /** The chunks, one after the other: a block, to be given back when they are decoded. */
  readonly bytes: Uint8Array;
}

/** Where a chunk lies in the file. */
export interface ChunkPlace {
  readonly begin: number;
  readonly length: number;
}

/**
 * Reads the chunks of these columns.
 * @throws {FileError} naming a column whose data cannot be there
 */
export async function readGroup(
  source: ByteSource,
  metadata: FileMetaData,
  group: RowGroup,
  names: ReadonlySet<string>,
  signal: AbortSignal | undefined,
  maxMemory = MOST_GROUP_BYTES,
): Promise<StoredGroup> {
  const columns = group.columns.filter(({ meta_data: meta }) => names.has(meta?.path_in_schema?.[0] ?? ''));
  const places = columns.map((column) => checkedPlace(source, column));
  const total = places.reduce((sum, { length }) => sum + length, 0);
  if (total > source.bytes) throw new FileError({ path: source.path }, 'its columns overlap: the file is damaged');
  const needed = columns.reduce((sum, column) => sum + valueBytes(column) * valuesOf(column), total);
  if (needed > maxMemory) throw new FileError({ path: source.path }, groupProblem(needed, maxMemory));
  const bytes = newBlock(total).subarray(0, total);
  let at = 0;
  for (let first = 0; first < places.length; ) {
    // Chunks mostly lie one behind the other: they are one read.
    const { begin } = places[first] as ChunkPlace;
    let end = begin;
    for (; places[first]?.begin === end; first++) end += places[first]?.length ?? 0;
    await source.read(bytes.subarray(at, at + end - begin), begin, { signal });
    at += end - begin;
  }
  const { key_value_metadata: _, ...told } = metadata;
  return { metadata: { ...told, row_groups: [{ ...group, columns }] }, fileBytes: source.bytes, bytes };
}

/** Of a chunk whose place was checked. */
export function placeOf({ meta_data: meta }: RowGroup['columns'][number]): ChunkPlace {
  const begin = Number(meta?.dictionary_page_offset || meta?.data_page_offset);
  return { begin, length: Number(meta?.total_compressed_size) };
}

function valueBytes({ meta_data: meta }: RowGroup['columns'][number]): number {
  const depth = meta?.path_in_schema.length ?? 0;
  if (depth > 1) return depth > LIST_DEPTH ? NESTED_BYTES : LISTED_BYTES;
  return meta?.type === 'INT64' ? BIGINT_BYTES : VALUE_BYTES;
}

function valuesOf({ meta_data: meta }: RowGroup['columns'][number]): number {
  return Number(meta?.num_values ?? 0);
}

function checkedPlace(source: ByteSource, column: RowGroup['columns'][number]): ChunkPlace {
  const { path } = source;
  const name = column.meta_data?.path_in_schema[0];
  const place = placeOf(column);
  const { begin, length } = place;
  if (column.file_path || !(begin >= 4) || !(length >= 0) || begin + length > source.bytes) {
    throw new FileError({ path }, `column "${name}": its data are not in the file, which is damaged or was cut`);
  }
  const values = valuesOf(column);
  if (values > MOST_GROUP_VALUES) {
    const problem = `column "${name}": ${values} values in a row group, more than are read at a time: write smaller row groups (row_group_size)`;
    throw new FileError({ path }, problem);
  }
  return place;
}

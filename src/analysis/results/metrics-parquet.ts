// Writes records of steps to a Parquet file, a row per step and a column per metric, for pandas, Polars and DuckDB. Row
// groups keep memory bounded; the same records give the same bytes.
import type { ColumnSource, SchemaElement } from 'hyparquet-writer';
import { allFigures, type StepRecord } from '../../step/step-record.js';
import { openParquet, TEXT } from './parquet-table.js';

/** Values of a row group: some 8 MB. */
const GROUP_CELLS = 2 ** 20;

/** Whether this part of a record is a figure; it is null if it is NaN or infinite. */
export function isMetric(key: string, value: StepRecord[string]): value is number | null {
  return (typeof value === 'number' || value === null) && key !== 'step';
}

/** Before the metrics. */
const FIXED: readonly SchemaElement[] = [
  { name: 'file', repetition_type: 'REQUIRED', ...TEXT },
  { name: 'step', repetition_type: 'REQUIRED', type: 'INT64' },
  { name: 'run', repetition_type: 'REQUIRED', ...TEXT },
  { name: 'regime', repetition_type: 'OPTIONAL', ...TEXT },
];

/**
 * @param keys of all metrics that the records have, in the order of the columns
 * @param write takes the file's bytes, in order; they are valid until it resolves
 * @param groupCells values of a row group
 */
export async function writeMetricsParquet(
  records: AsyncIterable<StepRecord>,
  keys: readonly string[],
  write: (bytes: Uint8Array) => Promise<void>,
  groupCells = GROUP_CELLS,
): Promise<void> {
  const metrics = keys.map((name): SchemaElement => ({ name, type: 'DOUBLE', repetition_type: 'OPTIONAL' }));
  const writer = await openParquet('steps', [...FIXED, ...metrics], write);
  const rows = Math.max(1, Math.floor(groupCells / (FIXED.length + keys.length)));
  let group: StepRecord[] = [];
  for await (const record of records) {
    group.push(record);
    if (group.length < rows) continue;
    await writer.write({ columnData: columnsOf(group, keys), rowGroupSize: rows, pageSize: 0 });
    group = [];
  }
  if (group.length > 0) await writer.write({ columnData: columnsOf(group, keys), rowGroupSize: rows, pageSize: 0 });
  await writer.finish();
}

function columnsOf(records: readonly StepRecord[], keys: readonly string[]): ColumnSource[] {
  const figures = records.map(allFigures);
  return [
    { name: 'file', data: records.map(({ file }) => file) },
    { name: 'step', data: records.map(({ step }) => BigInt(step)) },
    { name: 'run', data: records.map(({ run }) => run) },
    { name: 'regime', data: records.map(({ regime }) => regime?.name ?? null) },
    // Measured figures hardly compress, and trying takes longer than all the rest.
    ...keys.map((name): ColumnSource => {
      const data = figures.map((of) => (of[name] as number | null | undefined) ?? null);
      return { name, data, encoding: 'PLAIN', codec: 'UNCOMPRESSED', statistics: false };
    }),
  ];
}

// metrics.parquet: read back by another library, it holds what the records hold.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import { asyncBufferFromFile, parquetMetadata, parquetReadObjects } from 'hyparquet';
import { describe, expect, it } from 'vitest';
import { isMetric, writeMetricsParquet } from '../../../src/analysis/results/metrics-parquet.js';
import { allFigures, type StepRecord } from '../../../src/step/step-record.js';
import { collapsar } from '../../cli/cli-streams.js';
import { putStep, smallStep } from '../../support/analysis-logs.js';
import { temporaryDirectory } from '../../support/temporary-directory.js';

const directory = temporaryDirectory();

const FIXED = ['file', 'step', 'run', 'regime'];

async function* each<T>(items: readonly T[]): AsyncGenerator<T, void, undefined> {
  yield* items;
}

async function written(records: readonly StepRecord[], keys: readonly string[], groupCells?: number): Promise<Buffer> {
  const pieces: Buffer[] = [];
  await writeMetricsParquet(each(records), keys, async (bytes) => void pieces.push(Buffer.from(bytes)), groupCells);
  return Buffer.concat(pieces);
}

function fileOf(bytes: Buffer): ArrayBuffer {
  return new Uint8Array(bytes).buffer;
}

/** As the file must have them: every column, null where the record has nothing. */
function rowsOf(records: readonly StepRecord[], keys: readonly string[]): Record<string, unknown>[] {
  return records.map((record) => ({
    file: record.file,
    step: BigInt(record.step),
    run: record.run,
    regime: record.regime?.name ?? null,
    ...Object.fromEntries(keys.map((key) => [key, allFigures(record)[key] ?? null])),
  }));
}

const KEYS = ['a/mi', 'b/mi', 'a/retrieval@2', 'c/only nulls'];

const recordArbitrary: fc.Arbitrary<StepRecord> = fc
  .record(
    {
      file: fc.string({ unit: 'grapheme' }),
      step: fc.maxSafeInteger(),
      run: fc.string(),
      regime: fc.record({
        name: fc.constantFrom('diverse', 'template_collapse', null),
        since: fc.nat(),
        sentence: fc.string(),
      }),
      notes: fc.array(fc.string()),
      'a/mi': fc.option(fc.double({ noNaN: true, noDefaultInfinity: true })),
      'b/mi': fc.constantFrom(-0, 0, Number.MIN_VALUE, Number.MAX_VALUE, null),
      'a/retrieval@2': fc.constantFrom(0.25, 0.5),
      'c/only nulls': fc.constant(null),
    },
    { requiredKeys: ['file', 'step', 'run'] },
  )
  .map((record) => record as unknown as StepRecord);

describe('writeMetricsParquet', () => {
  it('keeps every value, in row groups of any size, and gives the same bytes again', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(recordArbitrary, { maxLength: 25 }),
        fc.integer({ min: 1, max: 64 }),
        async (records, cells) => {
          const bytes = await written(records, KEYS, cells);
          expect((await written(records, KEYS, cells)).equals(bytes)).toBe(true);
          const metadata = parquetMetadata(fileOf(bytes));
          expect(metadata.schema.slice(1).map(({ name }) => name)).toEqual([...FIXED, ...KEYS]);
          const rows = Math.max(1, Math.floor(cells / (FIXED.length + KEYS.length)));
          expect(metadata.row_groups).toHaveLength(Math.ceil(records.length / rows));
          expect(await parquetReadObjects({ file: fileOf(bytes) })).toEqual(rowsOf(records, KEYS));
        },
      ),
      { numRuns: 60 },
    );
  });

  it('writes as it goes: what it holds does not grow with the steps', async () => {
    const sizes: number[] = [];
    const records = Array.from({ length: 4000 }, (_, step) => ({ file: 'f', step, run: 'r', 'a/mi': Math.sqrt(step) }));
    const write = async (bytes: Uint8Array) => void sizes.push(bytes.length);
    await writeMetricsParquet(each(records as unknown as StepRecord[]), ['a/mi'], write, 500);
    // 100 rows a group, then the footer.
    expect(sizes).toHaveLength(41);
    expect(Math.max(...sizes.slice(0, -1))).toBeLessThan(100 * 40);
  });

  it('of no steps is a file without rows', async () => {
    const bytes = await written([], []);
    expect(await parquetReadObjects({ file: fileOf(bytes) })).toEqual([]);
    expect(
      parquetMetadata(fileOf(bytes))
        .schema.slice(1)
        .map(({ name }) => name),
    ).toEqual(FIXED);
  });
});

it('collapsar analyze --out writes it beside the records, with the same figures', async () => {
  const run = join(directory, 'run');
  // Metrics that only some steps have: later files have rewards.
  for (const step of [1, 2, 3, 4]) {
    const rewards = step < 3 ? {} : { rewards: Float64Array.from({ length: 12 }, (_, row) => row % 3) };
    await putStep(join(run, `${step}.safetensors`), { ...smallStep(step), ...rewards });
  }
  const out = join(directory, 'out');
  expect((await collapsar(['analyze', run, '--out', out, '--permutations', '19'])).status).toBe(0);
  const lines = readFileSync(join(out, 'metrics.jsonl'), 'utf8').trimEnd().split('\n');
  const records = lines.map((line) => JSON.parse(line) as StepRecord);
  const keys = [
    ...new Set(
      records.flatMap((record) =>
        Object.entries(allFigures(record)).flatMap(([key, value]) => (isMetric(key, value) ? key : [])),
      ),
    ),
  ];
  expect(keys).toContain('rollout/filter_kept_count');
  const file = await asyncBufferFromFile(join(out, 'metrics.parquet'));
  expect(await parquetReadObjects({ file })).toEqual(rowsOf(records, keys));
});

it('says who made it in the pattern that parquet-mr parses', async () => {
  const metadata = parquetMetadata(fileOf(await written([], [])));
  // VersionParser.FORMAT of parquet-mr.
  const pattern = /^(.*?)\s+version\s*(?:([^(]*?)\s*(?:\(\s*build\s*([^)]*?)\s*\))?)?$/;
  const { version } = JSON.parse(readFileSync(join(import.meta.dirname, '../../../package.json'), 'utf8'));
  expect(pattern.exec(metadata.created_by as string)?.slice(1)).toEqual(['collapsar', version, version]);
});

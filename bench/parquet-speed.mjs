// How fast are Parquet logs of rollouts read, against DuckDB (@duckdb/node-api) reading the same columns with as many
// threads? It hands them to JavaScript, by rows and by columns, or only sums lengths and numbers: then no text leaves
// native code. All in turns, on the same files, warm.
//
//   npm run compile && node bench/parquet-speed.mjs [--mb 300] [--threads 2] [--rounds 5] [--duckdb FOLDER]
//
// The files are written by pyarrow, as pandas has TRL do it (COLLAPSAR_PYTHON, else python3). DuckDB is not a dependency of
// the package: `npm install --no-save @duckdb/node-api` in FOLDER; without it only our own figures are given.
import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, renameSync, statSync } from 'node:fs';
import { readdir } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { availableParallelism, tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { readRollouts } from '../dist/exports/logs.js';
import { analyze, openEngine } from '../dist/index.js';
import { readOptions, whole } from '../scripts/options.mjs';
import { bestInTurns } from './in-turns.mjs';

const { mb, threads, rounds, duckdb } = readOptions({
  mb: { read: whole(1), default: '300' },
  threads: { read: whole(1), default: String(availableParallelism()) },
  rounds: { read: whole(1), default: '5' },
  duckdb: { read: (text) => text, default: '.' },
});

/** Columns that our readers take. */
const SETS = {
  trl: {
    glob: 'trl/completions/*.parquet',
    columns: ['step', 'prompt', 'completion', 'accuracy', 'form'],
  },
  own: {
    glob: 'own/*.parquet',
    columns: ['step', 'group', 'prompt', 'output', 'reward', 'entropy'],
  },
};

const folder = written();
const database = await openDatabase();
const engine = await openEngine({ device: 'cpu', threads });
for (const [name, { glob, columns }] of Object.entries(SETS)) await compare(name, join(folder, glob), columns);
await engine.dispose();
console.log(`\nmemory of the process at its most: ${(process.resourceUsage().maxRSS / 1e3).toFixed(0)} MB`);

async function compare(name, glob, columns) {
  const source = join(folder, name);
  const list = columns.map((column) => `"${column}"`).join(', ');
  const sums = columns.map(
    (column) => `sum(${/prompt|completion|output/.test(column) ? `strlen("${column}")` : `"${column}"`})`,
  );
  const ways = {
    ...(database && {
      'DuckDB, rows into JavaScript': async () => {
        const result = await database.stream(`SELECT ${list} FROM read_parquet('${glob}')`);
        for (let rows = 0; ; ) {
          const chunk = await result.fetchChunk();
          if (chunk === null || chunk.rowCount === 0) return rows;
          rows += chunk.getRows().length;
        }
      },
      'DuckDB, columns into JavaScript': async () => {
        const result = await database.stream(`SELECT ${list} FROM read_parquet('${glob}')`);
        for (let rows = 0; ; ) {
          const chunk = await result.fetchChunk();
          if (chunk === null || chunk.rowCount === 0) return rows;
          rows += chunk.getColumns()[0].length;
        }
      },
      'DuckDB, sums alone': async () => {
        await (await database.run(`SELECT ${sums.join(', ')} FROM read_parquet('${glob}')`)).getRows();
      },
    }),
    readRollouts: async () => {
      for await (const _ of readRollouts(source, { threads }));
    },
    'analyze, no p-values': async () => {
      for await (const _ of analyze(source, { engine, threads, permutations: 0 }));
    },
  };
  const best = await bestInTurns(ways, rounds);
  const bytes = await sizeOf(source);
  console.log(
    `\n${name}: ${(bytes / 1e6).toFixed(0)} MB stored, ${mb / 2} MB of columns, ${threads} threads, best of ${rounds}\n`,
  );
  console.log('| | s | MB/s of columns | readRollouts is so many times as fast |\n|---|---|---|---|');
  for (const [way, seconds] of Object.entries(best)) {
    const share = (seconds / best.readRollouts).toFixed(2);
    console.log(`| ${way} | ${seconds.toFixed(3)} | ${(mb / 2 / seconds).toFixed(0)} | ${share} |`);
  }
}

function written() {
  const path = join(tmpdir(), `collapsar-parquet-speed-${mb}`);
  if (existsSync(path)) return path;
  const draft = `${path}.draft`;
  mkdirSync(draft, { recursive: true });
  const script = new URL('parquet_logs.py', import.meta.url).pathname;
  const { status } = spawnSync(process.env.COLLAPSAR_PYTHON ?? 'python3', [script, draft, String(mb)], {
    stdio: 'inherit',
  });
  if (status !== 0) throw new Error('the files could not be written: pyarrow is needed (pip install pyarrow)');
  renameSync(draft, path);
  return path;
}

async function openDatabase() {
  try {
    const path = createRequire(join(resolve(duckdb), 'package.json')).resolve('@duckdb/node-api');
    const { DuckDBInstance } = await import(path);
    return await (await DuckDBInstance.create(':memory:', { threads: String(threads) })).connect();
  } catch {
    console.log(
      `DuckDB is skipped: no @duckdb/node-api in ${resolve(duckdb)} (npm install --no-save @duckdb/node-api)`,
    );
    return undefined;
  }
}

async function sizeOf(path) {
  const files = await readdir(path, { recursive: true, withFileTypes: true });
  return files
    .filter((file) => file.isFile())
    .reduce((sum, file) => sum + statSync(join(file.parentPath, file.name)).size, 0);
}

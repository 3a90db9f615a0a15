// What is decoded by hand, held against the libraries that could take its place: Snappy against npm's `snappy`, Parquet and
// JSON lines of rollouts against @duckdb/node-api. One table: our lines, what the library takes to install, the speed of
// each in turns, memory, and what becomes of damaged input. Each run is a process of its own, which may crash.
//
//   npm run compile && node bench/rivals.mjs [--mb 40] [--rounds 3] [--damaged 200]
//
// The libraries are installed in a temporary folder; files are written by pyarrow (COLLAPSAR_PYTHON, else python3).
import { execFileSync, spawnSync } from 'node:child_process';
import { mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { readOptions, whole } from '../scripts/options.mjs';
import { bestInTurns } from './in-turns.mjs';
import { uniformNumbers } from './random.mjs';
import { temporaryFolder } from './temporary.mjs';

const ROOT = fileURLToPath(new URL('..', import.meta.url));
/** A page or a file that takes longer, or more memory, is not bounded. */
const [LIMIT_SECONDS, LIMIT_MB] = [20, 1500];

const [, , mode, ...rest] = process.argv;
if (mode === '--one') await one(...rest);
else await main();

async function main() {
  const options = readOptions({
    mb: { read: whole(1), default: '40' },
    rounds: { read: whole(1), default: '3' },
    damaged: { read: whole(1), default: '200' },
  });
  const folder = temporaryFolder(tmpdir(), 'collapsar-rivals-');
  const files = written(folder, options.mb);
  const installed = Object.fromEntries(['snappy', '@duckdb/node-api'].map((name) => [name, install(folder, name)]));
  /** @type {[name: string, library: string, ways: string[], file: string, sources: string[]][]} */
  const rows = [
    [
      'Snappy',
      'snappy',
      ['snappy', 'snappy-library'],
      files.snappy,
      [
        'native/engine/logs/snappy.cpp',
        'native/engine/logs/snappy.h',
        'native/node/snappy.cpp',
        'native/node/snappy.h',
      ],
    ],
    ['Parquet pages', '@duckdb/node-api', ['parquet', 'parquet-library'], files.parquet, ['src/logs/rollouts/parquet']],
    [
      'JSON lines',
      '@duckdb/node-api',
      ['lines', 'lines-library'],
      files.lines,
      ['src/logs/rollouts/json-lines', 'native/engine/logs/json_lines.cpp', 'native/engine/logs/json_lines.h'],
    ],
  ];
  console.log(
    `Node ${process.version}, ${options.mb} MB, best of ${options.rounds}, ${options.damaged} damaged inputs\n`,
  );
  console.log(
    '| | lines of ours | library | MB/s | of ours | memory, MB | damaged: refused / read / crashed or unbounded |',
  );
  console.log('|---|---|---|---|---|---|---|');
  for (const [name, library, ways, file, sources] of rows) {
    const lines = sources.reduce((sum, source) => sum + linesOf(join(ROOT, source)), 0);
    const runs = inTurns(ways, file, folder, options.rounds);
    for (const way of ways) {
      const { mbs, memory } = runs[way];
      const { refused, read, lost } = damaged(way, file, folder, options.damaged);
      const isOurs = way === ways[0];
      const { version, seconds, mb } = installed[library];
      const cells = [
        isOurs ? name : '',
        isOurs ? lines : '',
        isOurs ? 'collapsar' : `${library} ${version}: ${mb} MB, ${seconds} s to install`,
        mbs.toFixed(0),
        isOurs ? '' : (mbs / runs[ways[0]].mbs).toFixed(2),
        memory.toFixed(0),
        `${refused} / ${read} / ${lost}`,
      ];
      console.log(`| ${cells.join(' | ')} |`);
    }
  }
}

/** Files of rollouts, and one of pages for Snappy: the texts of the same rows. */
function written(folder, mb) {
  const script = join(ROOT, 'bench', 'parquet_logs.py');
  execFileSync(process.env.COLLAPSAR_PYTHON ?? 'python3', [script, folder, String(2 * mb)]);
  const parquet = join(folder, 'own', 'rollouts.parquet');
  const uniform = uniformNumbers(1);
  const words = Array.from({ length: 20_000 }, (_, at) => `word${at}`);
  const line = (row) => {
    const text = Array.from({ length: 300 }, () => words[Math.floor(20_000 ** uniform()) - 1] ?? words[0]).join(' ');
    const output = `<think>\n${text}</think>\n\n42`;
    return JSON.stringify({
      step: row >> 9,
      group: row >> 3,
      prompt: 'what is asked '.repeat(20),
      output,
      reward: uniform(),
    });
  };
  const lines = join(folder, 'rollouts.jsonl');
  const texts = [];
  for (let row = 0, size = 0; size < mb * 1e6; row++) {
    const text = line(row);
    texts.push(text);
    size += text.length + 1;
  }
  writeFileSync(lines, `${texts.join('\n')}\n`);
  return { parquet, lines, snappy: lines };
}

/** Of a file, or of all in a folder. */
function linesOf(path) {
  if (statSync(path).isDirectory()) return readdirSync(path).reduce((sum, name) => sum + linesOf(join(path, name)), 0);
  return readFileSync(path, 'utf8').split('\n').length - 1;
}

function install(folder, name) {
  const place = join(folder, 'libraries', name.replace(/\W/g, '-'));
  mkdirSync(place, { recursive: true });
  writeFileSync(join(place, 'package.json'), '{}');
  const began = performance.now();
  execFileSync('npm', ['install', '--no-audit', '--no-fund', name], { cwd: place, stdio: 'ignore' });
  const seconds = ((performance.now() - began) / 1000).toFixed(0);
  const bytes = readdirSync(place, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .reduce((sum, entry) => sum + statSync(join(entry.parentPath, entry.name)).size, 0);
  const { version } = JSON.parse(readFileSync(join(place, 'node_modules', name, 'package.json'), 'utf8'));
  return { seconds, mb: (bytes / 1e6).toFixed(0), version };
}

/** @returns MB a second of the best run of each way, and the most memory of any */
function inTurns(ways, file, folder, rounds) {
  const found = {};
  for (let round = 0; round < rounds; round++) {
    for (const way of ways) {
      const { status, stdout, stderr } = spawn(way, [file], folder, 120);
      if (status !== 0) throw new Error(`${way}: ${stderr}`);
      const { mbs, memory } = JSON.parse(stdout.trim().split('\n').at(-1) ?? '');
      const before = found[way] ?? { mbs: 0, memory: 0 };
      found[way] = { mbs: Math.max(before.mbs, mbs), memory: Math.max(before.memory, memory) };
    }
  }
  return found;
}

/** Reads them all in one process; where that dies, another continues after the input that killed it. */
function damaged(way, file, folder, count) {
  const total = { refused: 0, read: 0, lost: 0 };
  for (let from = 0; from < count; ) {
    const { stdout } = spawn(way, [file, String(from), String(count)], folder, LIMIT_SECONDS * 6);
    const answers = stdout
      .trim()
      .split('\n')
      .filter((answer) => /^(refused|read|lost)$/.test(answer));
    for (const answer of answers) total[answer]++;
    from += answers.length;
    if (from >= count) break;
    total.lost++;
    from++;
  }
  return total;
}

function spawn(way, args, folder, seconds) {
  return spawnSync(process.execPath, [fileURLToPath(import.meta.url), '--one', way, folder, ...args], {
    encoding: 'utf8',
    timeout: seconds * 1000,
    maxBuffer: 1e9,
  });
}

/** In a process of its own: the speed on the whole file, or what becomes of it when it is damaged. */
async function one(way, folder, file, from, to) {
  const read = await readerOf(way, folder);
  if (from === undefined) {
    const bytes = read.prepare?.(file) ?? statSync(file).size;
    const { read: seconds } = await bestInTurns({ read: () => read(file) }, 4);
    console.log(JSON.stringify({ mbs: bytes / 1e6 / seconds, memory: process.resourceUsage().maxRSS / 1024 }));
    process.exit(0);
  }
  for (let at = Number(from); at < Number(to); at++) {
    const path = read.damage(file, at);
    const began = performance.now();
    let answer = 'read';
    try {
      if ((await read(path)) === false) answer = 'refused';
    } catch {
      answer = 'refused';
    }
    const isBounded =
      performance.now() - began < LIMIT_SECONDS * 1000 && process.resourceUsage().maxRSS / 1024 < LIMIT_MB;
    console.log(isBounded ? answer : 'lost');
    if (!isBounded) process.exit(1);
  }
  process.exit(0);
}

async function readerOf(way, folder) {
  const required = (name) => createRequire(join(folder, 'libraries', name.replace(/\W/g, '-'), 'package.json'));
  if (way.startsWith('snappy')) {
    const snappy = required('snappy')('snappy');
    const { loadAddon } = await import('../dist/engine/addon.js');
    const addon = loadAddon();
    const unpack = (packed, length) => {
      if (way === 'snappy-library') return snappy.uncompressSync(packed).length === length;
      if (length > 22 * packed.length + 64) return false;
      return addon.unpackSnappy(packed, Buffer.allocUnsafeSlow(length));
    };
    return pages(snappy, unpack);
  }
  if (way.endsWith('library')) {
    const { DuckDBInstance } = await import(required('@duckdb/node-api').resolve('@duckdb/node-api'));
    const database = await (await DuckDBInstance.create(':memory:', { threads: '2', memory_limit: '1GB' })).connect();
    const from = way.startsWith('parquet') ? 'read_parquet' : 'read_ndjson';
    const read = async (path) => {
      const result = await database.stream(`SELECT step, "group", prompt, output, reward FROM ${from}('${path}')`);
      for (let chunk = await result.fetchChunk(); chunk?.rowCount > 0; chunk = await result.fetchChunk())
        chunk.getColumns();
    };
    return damagedFiles(read, folder, way);
  }
  const { readRollouts } = await import('../dist/exports/logs.js');
  const read = async (path) => {
    let problems = 0;
    const onError = () => problems++;
    for await (const step of readRollouts(path, { threads: 2, onError })) if (step.output === undefined) problems++;
    return problems === 0;
  };
  return damagedFiles(read, folder, way);
}

/** Of pages of a megabyte, as Parquet has them. */
function pages(snappy, unpack) {
  let packed = [];
  const read = async (given) => {
    if (Array.isArray(given)) return unpack(...given);
    for (const [page, length] of packed) if (!unpack(page, length)) throw new Error('a page is not read');
    return true;
  };
  read.prepare = (file) => {
    const bytes = readFileSync(file);
    packed = [];
    for (let at = 0; at < bytes.length; at += 2 ** 20) {
      const page = bytes.subarray(at, at + 2 ** 20);
      packed.push([snappy.compressSync(page), page.length]);
    }
    return bytes.length;
  };
  read.damage = (file, seed) => {
    const page = readFileSync(file).subarray(0, 2 ** 16);
    return [changed(snappy.compressSync(page), seed), page.length];
  };
  return read;
}

function damagedFiles(read, folder, way) {
  let whole;
  read.damage = (file, seed) => {
    whole ??= file.endsWith('.jsonl') ? readFileSync(file).subarray(0, 2 ** 18) : small(file, folder);
    const path = join(folder, `damaged-${way}${file.slice(file.lastIndexOf('.'))}`);
    writeFileSync(path, changed(whole, seed));
    return path;
  };
  return read;
}

/** A file of one row group, so that every byte of it counts. */
function small(file, folder) {
  const path = join(folder, 'small.parquet');
  try {
    return readFileSync(path);
  } catch {
    const code =
      'import sys, pyarrow.parquet as p; p.write_table(p.ParquetFile(sys.argv[1]).read_row_group(0).slice(0, 64), sys.argv[2])';
    execFileSync(process.env.COLLAPSAR_PYTHON ?? 'python3', ['-c', code, file, path]);
    return readFileSync(path);
  }
}

/** Three bytes are others; every fourth input is cut besides, and every fifth has bytes of 255 at its begin or end. */
function changed(bytes, seed) {
  const uniform = uniformNumbers(seed + 1);
  const copy = Buffer.from(bytes);
  for (let change = 0; change < 3; change++) copy[Math.floor(uniform() * copy.length)] = Math.floor(uniform() * 256);
  if (seed % 5 === 0) copy.fill(255, seed % 2 ? 0 : copy.length - 16, seed % 2 ? 5 : copy.length - 8);
  return seed % 4 === 0 ? copy.subarray(0, Math.floor(uniform() * copy.length)) : copy;
}

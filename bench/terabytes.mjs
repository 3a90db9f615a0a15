// `collapsar analyze` over gigabytes in a warm page cache: beside a reader that computes nothing, beside torch, and the
// memory that it takes. Makes its own files in DIRECTORY and deletes them.
//   node bench/terabytes.mjs DIRECTORY [options]
//     --gigabytes 8              of step files for each dtype
//     --dtypes float32,bfloat16
//     --shape 64x512x1024        prompts x responses x tokens of a step
//     --lengths full|varied      of the responses; full is the most work a byte
//     --rounds 5                 of reader and analyze in turn
//     --threads N                of both; default: all
//     --memory 1,8,32            gigabytes of step files whose peak memory is taken, files of 4 GB among them; none: 0
//     --without-torch
// Needs `npm run compile`; torch and safetensors in COLLAPSAR_PYTHON (default python3). Writes bench/results/.
import { spawn } from 'node:child_process';
import { mkdirSync, readFileSync, rmSync, statSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { list, oneOf, positive, readOptions, whole, wrongUsage } from '../scripts/options.mjs';
import { storeResult } from './stored.mjs';
import { describeMachine, describeVersions, load, slug } from './suite/machine.mjs';
import { rooflinesPath } from './suite/roofline.mjs';
import { median } from './suite/statistics.mjs';
import { temporaryFolder } from './temporary.mjs';
import { stepBytes, writeHollowSteps, writeSteps } from './terabytes/files.mjs';

const here = (name) => fileURLToPath(new URL(name, import.meta.url));
const command = here('../dist/cli/main.js');

/** PROMPTSxROWSxTOKENS; a prompt without a row would be no step. */
function shapeOf(text) {
  const [, ...sizes] = /^([1-9]\d*)x([1-9]\d*)x([1-9]\d*)$/.exec(text)?.map(Number) ?? [];
  if (sizes.length === 0 || sizes[1] < sizes[0])
    throw new Error('expected PROMPTSxRESPONSESxTOKENS, and no fewer responses than prompts');
  return sizes;
}

const given = readOptions(
  {
    gigabytes: { read: positive, default: '8' },
    dtypes: {
      read: (text) => (text === '' ? [] : list(oneOf(['float32', 'bfloat16']))(text)),
      default: 'float32,bfloat16',
    },
    shape: { read: shapeOf, default: '64x512x1024' },
    lengths: { read: oneOf(['full', 'varied']), default: 'full' },
    rounds: { read: whole(1), default: '5' },
    threads: { read: whole(1), default: String(availableParallelism()) },
    memory: { read: (text) => (text === '0' ? [] : list(positive)(text)), default: '1,8,32' },
    'without-torch': { default: false },
  },
  ['DIRECTORY'],
);
if (!statSync(given.DIRECTORY, { throwIfNoEntry: false })?.isDirectory())
  wrongUsage(`${given.DIRECTORY} is no directory: make it, where there is room for the step files`);
const [prompts, rows, tokens] = given.shape;

/** Runs a program to its end. `watch` is called with its process id now and then. */
function run(program, args, watch) {
  return new Promise((resolve, reject) => {
    const begun = performance.now();
    const child = spawn(program, args, { stdio: ['ignore', 'pipe', 'inherit'] });
    const timer = watch && setInterval(() => watch(child.pid), 20);
    let output = '';
    child.stdout.setEncoding('utf8').on('data', (text) => {
      output += text;
    });
    child.on('error', reject);
    child.on('close', (status) => {
      clearInterval(timer);
      const seconds = (performance.now() - begun) / 1e3;
      if (status === 0) resolve({ seconds, output });
      else reject(new Error(`${program} ${args[0]} ended with ${status}`));
    });
  });
}

const analyze = (directory, watch) =>
  run(
    process.execPath,
    [command, 'analyze', directory, '--jsonl', '--quiet', '--threads', String(given.threads)],
    watch,
  );
const rooflines = rooflinesPath();
const read = (files) =>
  run(process.execPath, [here('./terabytes/reader.mjs'), rooflines, String(given.threads), ...files]);

const rate = (bytes, seconds) => `${(bytes / seconds / 1e9).toFixed(2)} GB/s`;

async function throughput(folder, dtype) {
  const shape = { prompts, rows, tokens, dtype };
  const count = Math.max(1, Math.round((given.gigabytes * 1e9) / stepBytes(shape)));
  const directory = join(folder, dtype);
  mkdirSync(directory);
  console.log(`${dtype}: ${count} steps of ${given.shape.join('x')}, ${(stepBytes(shape) / 1e6).toFixed(0)} MB each`);
  const files = await writeSteps(directory, count, shape, given.lengths);
  const { bytes } = JSON.parse((await read(files)).output); // warms the page cache
  const { output } = await analyze(directory);
  const ours = output
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line));
  /** @type {Record<'reader' | 'readerInside' | 'analyze', number[]>} */
  const rounds = { reader: [], readerInside: [], analyze: [] };
  for (let round = 0; round < given.rounds; round++) {
    const reading = await read(files);
    rounds.reader.push(reading.seconds);
    rounds.readerInside.push(JSON.parse(reading.output).seconds);
    rounds.analyze.push((await analyze(directory)).seconds);
  }
  const [reader, inside, analysis] = [rounds.reader, rounds.readerInside, rounds.analyze].map(median);
  console.log(
    `  reader   ${reader.toFixed(3)} s  ${rate(bytes, reader)}   (within the process ${rate(bytes, inside)})`,
  );
  console.log(
    `  analyze  ${analysis.toFixed(3)} s  ${rate(bytes, analysis)}   ${(reader / analysis).toFixed(3)} of the reader's rate`,
  );
  const result = {
    dtype,
    shape: [prompts, rows, tokens],
    lengths: given.lengths,
    steps: count,
    bytes,
    seconds: rounds,
  };
  result.share = reader / analysis;
  result.shareOfReadingAlone = inside / analysis;
  if (!given['without-torch']) Object.assign(result, await torchPeer(files, ours, bytes, analysis));
  rmSync(directory, { recursive: true });
  return result;
}

/** The script's figures must be ours before its time means anything. */
async function torchPeer(files, ours, bytes, analysis) {
  const python = process.env.COLLAPSAR_PYTHON || 'python3';
  let checked;
  try {
    checked = JSON.parse((await run(python, [here('./terabytes/peer.py'), '--check', ...files.slice(0, 2)])).output);
  } catch (error) {
    console.log(`  torch    left out: ${python}: ${error.message}`);
    return {};
  }
  let worst = 0;
  for (const [at, step] of checked.steps.entries()) {
    for (const [name, value] of Object.entries(step)) {
      const mine = ours[at][`collapse_first_turn_sample/${name}`];
      const error = Math.abs(mine - value) / Math.max(1, Math.abs(mine));
      if (!(error <= 1e-3)) throw new Error(`${name} of step ${at} is ${value} by torch, ${mine} by collapsar`);
      worst = Math.max(worst, error);
    }
  }
  const runs = [];
  for (let round = 0; round < 2; round++) runs.push(await run(python, [here('./terabytes/peer.py'), ...files]));
  const inside = Math.min(...runs.map(({ output }) => JSON.parse(output).seconds));
  const whole = Math.min(...runs.map(({ seconds }) => seconds));
  console.log(
    `  torch    ${inside.toFixed(3)} s  ${rate(bytes, inside)}   without its start (${(whole - inside).toFixed(1)} s); analyze is ${(inside / analysis).toFixed(1)} times as fast, start included`,
  );
  const { torch, threads } = checked;
  return {
    torch: {
      version: torch,
      threads,
      seconds: inside,
      wholeSeconds: whole,
      times: inside / analysis,
      worstDifference: worst,
    },
  };
}

/** Private bytes of a process now: what it holds beside the page cache and what it shares. */
function privateBytes(pid) {
  try {
    const fields = readFileSync(`/proc/${pid}/smaps_rollup`, 'utf8');
    const kilobytes = (name) => Number(fields.match(new RegExp(`^${name}:\\s+(\\d+) kB`, 'm'))?.[1] ?? 0);
    return 1024 * (kilobytes('Private_Clean') + kilobytes('Private_Dirty'));
  } catch {
    return 0;
  }
}

async function peakMemory(folder, gigabytes) {
  const directory = join(folder, `memory-${gigabytes}`);
  mkdirSync(directory);
  const usual = { prompts, rows, tokens, dtype: 'float32' };
  // As many responses as make a step of 4 GB.
  const large = { ...usual, rows: Math.round((4e9 / stepBytes(usual)) * rows) };
  const shapes = [];
  let bytes = 0;
  const add = (shape) => {
    shapes.push(shape);
    bytes += stepBytes(shape);
  };
  const largeFiles = Math.floor(gigabytes / 8);
  for (let i = 0; i < largeFiles; i++) add(large);
  while (bytes < gigabytes * 1e9) add(usual);
  writeHollowSteps(directory, shapes);
  let peak = 0;
  await analyze(directory, (pid) => {
    peak = Math.max(peak, privateBytes(pid));
  });
  rmSync(directory, { recursive: true });
  console.log(`  ${String(gigabytes).padStart(4)} GB, ${largeFiles} files of 4 GB   ${(peak / 1e6).toFixed(0)} MB`);
  return { gigabytes, files: shapes.length, filesOf4GB: largeFiles, peakPrivateBytes: peak };
}

const folder = temporaryFolder(given.DIRECTORY, 'collapsar-terabytes-');
const date = new Date().toISOString().slice(0, 10);
const machine = describeMachine();
const result = { date, machine, versions: describeVersions(), threads: given.threads, loadBefore: load() };
result.throughput = [];
for (const dtype of given.dtypes) result.throughput.push(await throughput(folder, dtype));
if (given.memory.length > 0 && process.platform === 'linux') {
  console.log('peak private memory of analyze');
  result.memory = [];
  for (const size of given.memory) result.memory.push(await peakMemory(folder, size));
}
const name = `${date}-${slug(machine.cpu)}-terabytes`;
console.log(`written: ${await storeResult(name, result, 2)}`);

// The benchmark suite: cases -> measures, a table on stdout, a file under bench/results. Progress goes to stderr.
//
//   npm run bench [-- --quick] [--only TEXT] [--docs]     the operations, the roofline, the cost of a call
//   npm run bench:peers [-- --quick] [--only TEXT] [--docs]     fewer cases, beside the peers that are found here
//
//   --quick      about a minute, small inputs      --only TEXT   cases whose name contains it (nothing is stored)
//   --docs       also writes the tables of docs/performance.md (not with --only)
//
// Exit status: 0 measured, 1 it broke, 2 wrong usage: an unknown option, --only that no case contains, --docs with --only.
// How the figures come about and how to read them: docs/performance.md.
import { readFile, writeFile } from 'node:fs/promises';
import { parseArgs } from 'node:util';
import { loadAddon } from '../dist/engine/addon.js';
import { openEngine } from '../dist/index.js';
import { loadOnnxRuntime } from './peers/onnxruntime.mjs';
import { checkedPeers } from './peers/peers.mjs';
import { Python } from './peers/python.mjs';
import { storeResult } from './stored.mjs';
import { measureCalls } from './suite/call-cost.mjs';
import { chosenCases } from './suite/cases.mjs';
import { Collected, fastestReads } from './suite/collected.mjs';
import { makeInput } from './suite/data.mjs';
import { interleave } from './suite/interleave.mjs';
import { describeMachine, describeVersions, load, slug } from './suite/machine.mjs';
import { callOf, isThere, namedResults } from './suite/operations.mjs';
import { replaceSection, toMarkdown, toText } from './suite/report.mjs';
import { Reader, readPlans } from './suite/roofline.mjs';

const USAGE = `npm run bench (or bench:peers) -- [--quick] [--only TEXT] [--docs]
  --quick      about a minute, small inputs
  --only TEXT  cases whose name contains it; nothing is stored
  --docs       also writes the tables of docs/performance.md`;

/** The options and the cases they choose; wrong usage ends here, before anything is measured. */
function readOptions() {
  try {
    const { values } = parseArgs({
      options: {
        peers: { type: 'boolean', default: false },
        quick: { type: 'boolean', default: false },
        only: { type: 'string', default: '' },
        docs: { type: 'boolean', default: false },
      },
    });
    return { options: values, cases: chosenCases(values) };
  } catch (error) {
    console.error(`bench: ${error.message}\nusage: ${USAGE}`);
    process.exit(2);
  }
}
const { options, cases } = readOptions();
/**
 * Each case has its turn in every pass, so that the spread of its rounds knows what a machine does over minutes. Peers
 * are held against collapsar in the same round, and one pass is enough.
 * @type {import('./suite/interleave.mjs').Effort}
 */
const effort = options.quick
  ? { rounds: 2, slice: 0.02, slowSeconds: 0.3, slowRounds: 2 }
  : { rounds: options.peers ? 7 : 3, slice: 0.1, slowSeconds: 1, slowRounds: 3 };
const passes = options.peers ? 1 : options.quick ? 2 : 3;

const started = performance.now();
const progress = (text) => {
  process.stderr.write(`${((performance.now() - started) / 1000).toFixed(0).padStart(4)} s  ${text}\n`);
};

const machine = describeMachine();
const versions = describeVersions();
const loadBefore = load();
const addon = loadAddon();
const threadCounts = [...new Set([1, machine.threads])];
const engines = new Map();
const readers = new Map();
for (const threads of threadCounts) {
  engines.set(threads, await openEngine({ device: 'cpu', threads }));
  readers.set(threads, new Reader(threads));
}
const { isa, isaAvailable } = engines.get(1).info;

const measured = new Collected();
const calls = new Collected();
/** What is told apart in the stored measures. */
const identify = (what) => ({
  key: JSON.stringify([what.case, what.runner, what.peer, what.threads, what.isa, what.prefetchBytes]),
  ...what,
});
const skipped = [];

const found = { threadCounts };
if (options.peers) {
  const { runtime, version, problem } = await loadOnnxRuntime();
  if (runtime === undefined) skipped.push(problem);
  else {
    found.onnx = runtime;
    versions['onnxruntime-node'] = version;
  }
  const { python, versions: inPython, problem: withoutPython } = await Python.start();
  if (python === undefined) skipped.push(`peers in Python: ${withoutPython}`);
  else {
    found.python = python;
    Object.assign(versions, inPython);
    for (const name of ['torch', 'numpy', 'scipy']) {
      if (inPython[name] === undefined) skipped.push(`${name}: this Python does not have it`);
    }
  }
}

/** What else bounds a case: arithmetic, and where rows have padding between them the cache lines of their tokens. */
function limitsOf({ operation }, { tensor, lengths }, reader) {
  const limits = [['arithmetic', () => reader.multiplyAdds()]];
  const ofTokens = operation === 'sumTokens' || operation === 'step';
  return ofTokens ? [...limits, ['lines', () => reader.touch(tensor, lengths)]] : limits;
}

/** Reads, calls and peers in turns, on every number of threads; the faster way to read is the roofline. */
async function measureCase(given, input) {
  const call = callOf(given, input);
  const { elements, bytes } = input;
  const tasks = [];
  const add = (name, what, run, more) => tasks.push({ name, what, run, ...more });
  for (const threads of threadCounts) {
    const reader = readers.get(threads);
    for (const prefetchBytes of readPlans) {
      const run = () => reader.read(input.tensor, elements, prefetchBytes);
      add(`read ${threads} ${prefetchBytes}`, { runner: 'read', threads, prefetchBytes }, run);
    }
    for (const [runner, run] of limitsOf(given, input, reader)) add(`${runner} ${threads}`, { runner, threads }, run);
    const run = async () => {
      await call(engines.get(threads));
    };
    add(`collapsar ${threads}`, { runner: 'collapsar', threads }, run);
  }
  const peers = options.peers ? await findPeers(given, input) : [];
  const broken = new Set();
  for (const peer of peers) {
    const name = `${peer.name} ${peer.threads}`;
    const run = async () => {
      if (broken.has(name)) return 0;
      try {
        return await peer.time(effort.slice);
      } catch (error) {
        broken.add(name);
        skipped.push(`${given.id}: ${name}: ${error.message}`);
        return 0;
      }
    };
    const what = { runner: 'peer', peer: peer.name, threads: peer.threads, errors: peer.errors };
    add(name, what, run, { warm: true }); // the check has called it
  }
  const times = await interleave(tasks, effort);
  for (const { close } of peers) await close();
  for (const { name, what } of tasks) {
    if (!broken.has(name)) measured.add(identify({ case: given.id, elements, bytes, isa, ...what }), times.get(name));
  }
}

/** The other instruction sets, with one thread. */
async function measureIsas(given, input) {
  const call = callOf(given, input);
  const { elements, bytes } = input;
  try {
    for (const other of isaAvailable.filter((name) => name !== isa)) {
      if (!addon.forceIsa(other)) throw new Error(`cannot force ${other}`);
      const run = async () => {
        await call(engines.get(1));
      };
      const times = await interleave([{ name: other, run }], effort);
      measured.add(
        identify({ case: given.id, elements, bytes, isa: other, runner: 'collapsar', threads: 1 }),
        times.get(other),
      );
    }
  } finally {
    addon.forceIsa(isa);
  }
}

/** The peers of a case whose results are ours; the others are named among what was skipped. */
async function findPeers(given, input) {
  const ours = namedResults(given, await callOf(given, input)(engines.get(1)));
  const { peers, failed } = await checkedPeers(given, input, ours, found);
  skipped.push(...failed.map((what) => `${given.id}: ${what}`));
  return peers;
}

for (let pass = 1; pass <= passes; pass++) {
  for (const [at, given] of cases.entries()) {
    if (!isThere(engines.get(1), given.operation)) continue;
    progress(`pass ${pass}/${passes}, ${at + 1}/${cases.length}: ${given.id}`);
    const input = makeInput(given, engines.get(1));
    await measureCase(given, input);
    if (given.isas && !options.peers) await measureIsas(given, input);
  }
  if (options.peers || options.only !== '') continue;
  progress(`pass ${pass}/${passes}: the cost of a call`);
  await measureCalls(engines.get(1), readers.get(1), effort, calls);
}
const absent = cases.map(({ operation }) => operation).filter((operation) => !isThere(engines.get(1), operation));
for (const operation of new Set(absent)) skipped.push(`all cases of ${operation}: this engine does not have it`);
await found.python?.close();
for (const threads of threadCounts) {
  await engines.get(threads).dispose();
  await readers.get(threads).close();
}

/** @type {import('./suite/report.mjs').Results} */
const results = {
  schema: 1,
  date: new Date().toISOString(),
  suite: options.peers ? 'peers' : 'bench',
  quick: options.quick,
  machine,
  load: { before: loadBefore, after: load() },
  versions,
  isa,
  calls: calls.all(),
  measures: fastestReads(measured.all()),
  skipped,
};
process.stdout.write(toText(results));

if (options.only === '') {
  const kind = `${options.peers ? '-peers' : ''}${options.quick ? '-quick' : ''}`;
  const base = `${results.date.slice(0, 10)}-${slug(machine.cpu)}${kind}`;
  progress(`wrote ${await storeResult(base, results)}`);
  if (options.docs) {
    const page = new URL('../docs/performance.md', import.meta.url);
    await writeFile(page, replaceSection(await readFile(page, 'utf8'), results.suite, toMarkdown(results)));
    progress('wrote docs/performance.md');
  }
}

// Runs the benchmark suite: a table on stdout, a file under bench/results. Progress goes to stderr.
//
//   npm run bench [-- OPTIONS]         the operations, the roofline, the cost of a call
//   npm run bench:peers [-- OPTIONS]   fewer cases, beside the peers that are found here
//
// It ends within its minutes, and holds a quarter of the memory at most, peers and all: sizes of inputs, rounds, and
// what a peer is measured with follow from both (suite/budget.mjs, peers/sizes.mjs). The file is written after each
// case, so that a run that is killed leaves what it had.
//
// Exit status: 0 measured, 1 it broke, 2 wrong usage: an unknown option, --only that no case contains, --docs with
// --only. How the figures come about and how to read them: docs/internals/performance.md.
import { readFile, writeFile } from 'node:fs/promises';
import { availableParallelism, tmpdir } from 'node:os';
import { resolve } from 'node:path';
import { setImmediate } from 'node:timers/promises';
import { pathToFileURL } from 'node:url';
import { parseArgs } from 'node:util';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { positive } from '../scripts/options.mjs';
import { measureBeside, Sizes } from './peers/beside.mjs';
import { findLibraries } from './peers/libraries.mjs';
import { claimResult } from './stored.mjs';
import { inputBudget, memoryBudget, TimeBudget } from './suite/budget.mjs';
import { chosenCases, lastLevelCache } from './suite/cases.mjs';
import { makeInput } from './suite/data.mjs';
import { MemoryWatch } from './suite/footprint.mjs';
import { describeMachine, describeVersions, load, slug } from './suite/machine.mjs';
import { Run } from './suite/measure.mjs';
import { isThere } from './suite/operations.mjs';
import { replaceSection, toMarkdown, toText } from './suite/report.mjs';
import { temporaryFolder } from './temporary.mjs';

const USAGE = `npm run bench (or bench:peers) -- [--quick] [--minutes N] [--only TEXT] [--docs] [--out FOLDER]
  --minutes N   the time it may take, 10 by default; inputs are smaller in less
  --quick       --minutes 1, and the result is marked as a quick one
  --only TEXT   cases whose name contains it; nothing is stored
  --docs        also writes the tables of docs/internals/performance.md
  --out FOLDER  where the result is stored; bench/results`;

const memory = memoryBudget();

/** The options and the cases they choose; wrong usage ends here, before anything is measured. */
function readOptions() {
  try {
    const { values } = parseArgs({
      options: {
        peers: { type: 'boolean', default: false },
        quick: { type: 'boolean', default: false },
        minutes: { type: 'string' },
        only: { type: 'string', default: '' },
        docs: { type: 'boolean', default: false },
        out: { type: 'string' },
      },
    });
    const minutes = readMinutes(values.minutes ?? (values.quick ? '1' : '10'));
    const budget = inputBudget({ peers: values.peers, minutes, memory, cache: lastLevelCache() });
    return { options: { ...values, minutes }, cases: chosenCases({ ...values, budget }) };
  } catch (error) {
    console.error(`bench: ${error.message}\nusage: ${USAGE}`);
    process.exit(2);
  }
}

function readMinutes(text) {
  try {
    return positive(text);
  } catch (error) {
    throw new Error(`--minutes ${text}: ${error.message}`);
  }
}

const { options, cases } = readOptions();
/**
 * Each case has its turn in every pass, so that the spread of its rounds knows what a machine does over minutes. Peers
 * are held against collapsar in the same round, and one pass is enough.
 */
const passes = options.peers ? 1 : 3;
/** @type {import('./suite/interleave.mjs').Effort} */
const effort = {
  rounds: options.peers ? 7 : 3,
  leastRounds: options.peers ? 2 : 1,
  slice: Math.min(0.1, 0.02 * options.minutes),
  slowSeconds: 1,
  slowRounds: 3,
};
// The last part may run over its share by a call or two.
const time = new TimeBudget(options.minutes * 60 * 0.94);
const watch = new MemoryWatch(memory);

const started = performance.now();
const minutesAndSeconds = (seconds) =>
  `${Math.floor(seconds / 60)}:${String(Math.floor(seconds % 60)).padStart(2, '0')}`;
const progress = (text) => {
  const [gone, left] = [(performance.now() - started) / 1000, Math.max(0, time.left())];
  process.stderr.write(`${minutesAndSeconds(gone)}, at most ${minutesAndSeconds(left)} left  ${text}\n`);
};

setFlagsFromString('--expose-gc');
const collectGarbage = runInNewContext('gc');
/** An input of a gigabyte that nobody holds any more is given back before the next is made. */
async function giveBack() {
  collectGarbage();
  await setImmediate();
}

const date = new Date().toISOString();
const machine = describeMachine();
const versions = describeVersions();
const loadBefore = load();
const threadCounts = [...new Set([1, availableParallelism()])];
const run = await Run.open({ effort, threadCounts, time, watch });
const done = new Set();

/** @returns {import('./suite/report.mjs').Results} of what was measured until now */
const resultsSoFar = () => ({
  schema: 1,
  date,
  suite: options.peers ? 'peers' : 'bench',
  quick: options.quick,
  machine,
  load: { before: loadBefore, after: load() },
  budget: {
    minutes: options.minutes,
    usedSeconds: (performance.now() - started) / 1000,
    memoryBytes: memory,
    peakMemoryBytes: watch.peakBytes,
  },
  cases: { done: done.size, of: measurable.length },
  versions,
  isa: run.isa,
  ...run.results(),
});

let claimed;
/** @returns the file's name; undefined where nothing is stored */
async function store() {
  if (options.only !== '') return undefined;
  const kind = `${options.peers ? '-peers' : ''}${options.quick ? '-quick' : ''}`;
  const folder = options.out ? pathToFileURL(`${resolve(options.out)}/`) : undefined;
  claimed ??= await claimResult(`${date.slice(0, 10)}-${slug(machine.cpu)}${kind}`, folder);
  await claimed.write(resultsSoFar());
  return claimed.name;
}

/** Whether there is time for more; what there is none for is named. */
function isTimeFor(what) {
  if (time.left() > 0) return true;
  run.skip(`${what}: the ${options.minutes} minutes were over`);
  return false;
}

async function measureAlone() {
  const turns = [...measurable, undefined]; // and the cost of a call
  for (let pass = 1; pass <= passes; pass++) {
    for (const [at, given] of turns.entries()) {
      const name = given?.id ?? 'the cost of a call';
      if (given === undefined && options.only !== '') continue;
      if (pass > 1 && time.left() <= 0) return run.note(`${pass - 1} of ${passes} passes, and ${at} cases of the next`);
      if (!isTimeFor(name)) continue;
      progress(`pass ${pass}/${passes}, ${at + 1}/${turns.length}: ${name}`);
      const share = time.share((passes - pass + 1) * turns.length - at);
      if (given === undefined) await run.measureCalls(share);
      else {
        const input = makeInput(given, run.engine);
        await run.measureOwn(given, input, given.isas ? share.share(2) : share);
        if (given.isas) await run.measureIsas(given, input, share);
        done.add(given.id);
      }
      await giveBack();
      await store();
    }
  }
}

async function measureWithPeers() {
  const { libraries, versions: found, absent } = await findLibraries(time, watch);
  Object.assign(versions, found);
  for (const what of absent) run.skip(what);
  progress(`peers: ${libraries.map(({ name }) => name).join(', ')}`);
  const folder = temporaryFolder(tmpdir(), 'collapsar-bench-');
  const partsOfCase = libraries.reduce((sum, { weight }) => sum + weight, 1);
  let parts = partsOfCase * measurable.length;
  for (const [at, given] of measurable.entries()) {
    const upTo = parts - partsOfCase;
    if (!isTimeFor(given.id)) continue;
    const place = `${at + 1}/${measurable.length}: ${given.id}`;
    progress(`${place}; next: ${measurable[at + 1]?.id ?? 'the table'}`);
    const sizes = new Sizes(given, run.engine, folder);
    await run.measureOwn(given, (await sizes.at(0)).input, time.share(parts--));
    for (const library of libraries) {
      if (isTimeFor(`${given.id}: ${library.name}`)) {
        progress(`${place} beside ${library.name}`);
        await measureBeside(library, sizes, time.share(parts, library.weight), run);
      }
      parts -= library.weight;
    }
    parts = upTo;
    done.add(given.id);
    await sizes.close();
    await giveBack();
    await store();
  }
  for (const library of libraries) await library.close();
}

const measurable = cases.filter(({ operation }) => isThere(run.engine, operation));
for (const operation of new Set(cases.filter((one) => !measurable.includes(one)).map((one) => one.operation)))
  run.skip(`all cases of ${operation}: this engine does not have it`);
await (options.peers ? measureWithPeers() : measureAlone());
await run.close();
watch.close();
const stored = await store();

const results = resultsSoFar();
process.stdout.write(toText(results));
if (stored !== undefined) progress(`wrote ${options.out ?? 'bench/results'}/${stored}`);
if (options.docs) {
  const page = new URL('../docs/internals/performance.md', import.meta.url);
  await writeFile(page, replaceSection(await readFile(page, 'utf8'), results.suite, toMarkdown(results)));
  progress('wrote docs/internals/performance.md');
}

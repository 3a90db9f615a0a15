// `npm run fuzz`: coverage-guided fuzzing of the readers of step files and rollout logs (fuzz/targets.ts).
//   npm run fuzz                                   every target, a minute of the processor each
//   npm run fuzz -- --seconds 600 npy              one, ten minutes
//   npm run fuzz -- --corpus DIR                   keeps inputs there instead of in build/fuzz/corpus
//   npm run fuzz -- --minimise                     only makes the corpus smaller
//   npm run fuzz -- --pack                         only packs seeds that lie loose (fuzz/seeds.ts)
// Starts from the target's seeds and the corpus; inputs that reach something new are added to the corpus, also when
// interrupted. A finding goes to build/fuzz/findings and ends the run with 1. jazzer.js would do the same, but the
// addon in its package needs glibc 2.38, which Debian 12 lacks.
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { setImmediate } from 'node:timers/promises';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { positive, readOptions, whole, wrongUsage } from '../scripts/options.mjs';
import { COUNTERS, instrument } from './instrument.mjs';
import { mutate, Random } from './mutate.mjs';

const root = join(dirname(fileURLToPath(import.meta.url)), '..');
const build = join(root, 'build', 'fuzz');
const { targets, seconds, seed, corpus, minimise, pack } = readOptions(
  {
    seconds: { read: positive, default: '60' },
    seed: { read: whole(0), default: '1' },
    corpus: { read: resolve, default: join(build, 'corpus') },
    minimise: { default: false },
    pack: { default: false },
  },
  ['targets...'],
);

const branches = new Uint32Array(COUNTERS);
globalThis.__branches = branches;
// One for each process: several targets may be fuzzed at a time.
const built = join(build, String(process.pid));
process.once('exit', () => rmSync(built, { recursive: true, force: true }));
const there = instrument(root, ['src', 'fuzz'], built, (file) => file.startsWith(join('src', 'logs')));
const { readAsStep, TARGETS, useSidecars } = await import(pathToFileURL(join(built, 'fuzz', 'targets.js')).href);
const { packSeeds, seedsOf } = await import(pathToFileURL(join(built, 'fuzz', 'seeds.js')).href);

/** An input that takes more of the processor hangs: not of the clock, which runs on while others compute. */
const SLOW_MS = 2000;
/** One that waits for nothing that comes. */
const STUCK_MS = 120_000;

function processorMs() {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1000;
}

/** What an input reaches: each branch with the magnitude of its count, as libFuzzer has it. */
function featuresNow() {
  const features = [];
  for (let i = 0; i < COUNTERS; i++) {
    const count = branches[i];
    if (count > 0) features.push(i * 8 + Math.min(7, 32 - Math.clz32(count)));
  }
  return features;
}

async function run(target, input) {
  branches.fill(0);
  const begin = processorMs();
  const timer = setTimeout(() => finding(target, input, new Error(`waits for longer than ${STUCK_MS} ms`)), STUCK_MS);
  try {
    await readAsStep(target, input);
  } catch (error) {
    finding(target, input, error);
  } finally {
    clearTimeout(timer);
  }
  const took = processorMs() - begin;
  if (took > SLOW_MS) finding(target, input, new Error(`computes for ${Math.round(took)} ms`));
  return featuresNow();
}

function finding(target, input, error) {
  const folder = join(build, 'findings');
  mkdirSync(folder, { recursive: true });
  const file = join(folder, `${target.name}-${digest(input)}`);
  writeFileSync(file, input);
  console.error(
    `${target.name}: ${error.stack}\nthe input is ${file}: mend the reader, then move it to ${target.seeds}, ` +
      'as read-… or refused-…, named after what is in it, and pack it (--pack)',
  );
  process.exit(1);
}

function digest(input) {
  return createHash('sha256').update(input).digest('hex').slice(0, 16);
}

/** The smallest inputs that together reach everything. */
async function minimised(target, inputs) {
  const kept = [];
  const reached = new Set();
  for (const input of [...inputs].sort((a, b) => a.length - b.length)) {
    const features = await run(target, input);
    if (features.every((feature) => reached.has(feature))) continue;
    for (const feature of features) reached.add(feature);
    kept.push(input);
  }
  return { kept, reached };
}

function load(folder) {
  return existsSync(folder) ? readdirSync(folder).map((name) => readFileSync(join(folder, name))) : [];
}

let interrupted = false;
for (const signal of ['SIGINT', 'SIGTERM']) {
  process.once(signal, () => {
    interrupted = true;
  });
}

async function fuzz(target, seconds, random) {
  const folder = join(corpus, target.name);
  const seeds = [Buffer.from('0'), ...seedsOf(join(root, target.seeds)).values()];
  const { kept: inputs, reached } = await minimised(target, [...seeds, ...load(folder)]);
  console.log(`${target.name}: ${inputs.length} inputs reach ${reached.size} of what ${there} branches can count`);
  const end = processorMs() + seconds * 1000;
  let said = performance.now();
  let runs = 0;
  while (processorMs() < end && !interrupted) {
    const parent = random.of(inputs);
    const input = mutate(parent, target, random.of(inputs), random);
    const features = await run(target, input);
    runs++;
    // Reading from memory waits for nothing: signals need their turn.
    if (runs % 1000 === 0) await setImmediate();
    if (!features.every((feature) => reached.has(feature))) {
      for (const feature of features) reached.add(feature);
      inputs.push(Buffer.from(input));
    }
    if (performance.now() - said < 30_000) continue;
    said = performance.now();
    console.log(
      `${target.name}: ${runs} runs, ${inputs.length} inputs, ${reached.size} reached, ${Math.round((end - processorMs()) / 1000)} s to go`,
    );
  }
  const { kept } = await minimised(target, inputs);
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  for (const input of kept) writeFileSync(join(folder, digest(input)), input);
  const bytes = kept.reduce((total, input) => total + input.length, 0);
  console.log(`${target.name}: ${runs} runs without a finding; ${kept.length} inputs of ${bytes} bytes kept`);
}

const unknown = targets.filter((name) => !TARGETS.some((target) => target.name === name));
if (unknown.length > 0) {
  wrongUsage(`no target ${unknown.join(', ')}, expected ${TARGETS.map(({ name }) => name).join(', ')}`);
}
useSidecars(seedsOf(join(root, 'fuzz', 'sidecars')));
for (const target of TARGETS) {
  if (targets.length > 0 && !targets.includes(target.name)) continue;
  if (pack) packSeeds(join(root, target.seeds));
  else await fuzz(target, minimise ? 0 : seconds, new Random(seed));
}

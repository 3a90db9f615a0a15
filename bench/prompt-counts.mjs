// Do verdicts hold where steps have different numbers of prompts? Runs of an exact model through metrics and judge: of
// a policy that never changes nothing may be said; of one that loses its prompts behind a larger batch it must be said
// soon.
//
//   npm run compile && node bench/prompt-counts.mjs [--runs 20] [--seed 7]
//
// Prompt x has a fixed distribution over 64 tokens, Dirichlet(.15) mixed with a common one; responses are 12 tokens,
// scored exactly. Exit status 1 where a run is judged wrongly.
import { pathToFileURL } from 'node:url';
import { crossScoreMetrics, Judge, openEngine } from '../dist/index.js';
import { readOptions, whole } from '../scripts/options.mjs';
import { bell, uniformNumbers } from './random.mjs';

const [WORDS, POOL, ROWS_EACH, TOKENS] = [64, 512, 8, 12];

/**
 * Steps of each run: how many columns, how much they depend on their prompt, and how many different prompts they are.
 */
export const RUNS = {
  ragged: Array.from({ length: 23 }, (_, at) => ({ columns: (at + 1) % 10 === 0 ? 4 : 32, dependence: 0.9 })),
  halved: [...many(12, { columns: 64, dependence: 0.9 }), ...many(8, { columns: 4, dependence: 0.9 })],
  shrink: Array.from({ length: 40 }, (_, at) => ({ columns: 64 - Math.round((56 * at) / 39), dependence: 0.9 })),
  repeats: [...many(10, { columns: 16, dependence: 0.9 }), ...many(10, { columns: 16, dependence: 0.9, different: 3 })],
  hidden: [...many(10, { columns: 4, dependence: 0.9 }), ...many(10, { columns: 64, dependence: 0.26 })],
};
/** First step of the loss in `hidden`, and the last at which it must have been said. */
export const [LOSS, SAID_BY] = [11, 16];

function many(times, step) {
  return Array.from({ length: times }, () => step);
}

/** Gamma(shape), by Marsaglia and Tsang. */
function gamma(shape, uniform) {
  if (shape < 1) return gamma(shape + 1, uniform) * (1 - uniform()) ** (1 / shape);
  const d = shape - 1 / 3;
  for (;;) {
    const x = bell(uniform);
    const v = (1 + x / Math.sqrt(9 * d)) ** 3;
    if (v > 0 && Math.log(1 - uniform()) < 0.5 * x * x + d - d * v + d * Math.log(v)) return d * v;
  }
}

function dirichlet(shape, uniform) {
  const drawn = Array.from({ length: WORDS }, () => Math.max(gamma(shape, uniform), 1e-300));
  const total = drawn.reduce((sum, value) => sum + value, 0);
  return drawn.map((value) => value / total);
}

/** A step as crossScoreMetrics takes it. */
function drawnStep({ columns, dependence, different = columns }, { base, own }, uniform) {
  const picked = new Set();
  while (picked.size < different) picked.add(Math.floor(uniform() * POOL));
  const ids = [...picked];
  const prompts = Array.from({ length: columns }, (_, at) => ids[at % different]);
  const policy = prompts.map((id) => own[id].map((p, word) => (1 - dependence) * base[word] + dependence * p));
  const logs = policy.map((probabilities) => probabilities.map(Math.log));
  const rows = columns * ROWS_EACH;
  const sums = new Float64Array(rows * columns);
  const groups = Array.from({ length: rows }, (_, row) => Math.floor(row / ROWS_EACH));
  for (let row = 0; row < rows; row++) {
    for (let t = 0; t < TOKENS; t++) {
      let left = uniform();
      let word = 0;
      while (word < WORDS - 1 && left > policy[groups[row]][word]) left -= policy[groups[row]][word++];
      for (let p = 0; p < columns; p++) sums[row * columns + p] += logs[p][word];
    }
  }
  return {
    sums: { data: sums, dtype: /** @type {const} */ ('float64'), shape: [rows, columns] },
    lengths: groups.map(() => TOKENS),
    groups,
    promptTokens: prompts.map((id) => [id]),
  };
}

/** @returns the alarms of a run, each with the step at which it was raised */
export async function alarmsOf(name, seed, engine) {
  const uniform = uniformNumbers(seed * 7919 + Object.keys(RUNS).indexOf(name));
  const world = { base: dirichlet(1, uniform), own: Array.from({ length: POOL }, () => dirichlet(0.15, uniform)) };
  const judge = new Judge();
  const alarms = [];
  for (const [at, step] of RUNS[name].entries()) {
    const metrics = await crossScoreMetrics(engine, drawnStep(step, world, uniform), { permutations: 99 });
    const { verdicts } = judge.add({ step: at + 1, metrics });
    alarms.push(...verdicts.filter(({ severity, raised }) => severity !== 'info' && raised === at + 1));
  }
  return alarms;
}

export function isRight(name, alarms) {
  if (name !== 'hidden') return alarms.length === 0;
  return alarms.length > 0 && alarms.every(({ raised }) => raised >= LOSS) && alarms[0].raised <= SAID_BY;
}

if (import.meta.url === pathToFileURL(process.argv[1]).href) {
  const { runs, seed } = readOptions({
    runs: { read: whole(1), default: '20' },
    seed: { read: whole(0), default: '7' },
  });
  const engine = await openEngine();
  let wrong = 0;
  for (const name of Object.keys(RUNS)) {
    let right = 0;
    for (let run = 0; run < runs; run++) {
      const alarms = await alarmsOf(name, seed + run, engine);
      if (isRight(name, alarms)) right++;
      else
        console.log(
          `${name}, seed ${seed + run}: ${alarms.map(({ kind, raised }) => `${kind} at ${raised}`).join(', ') || 'nothing'}`,
        );
    }
    console.log(`${name.padEnd(8)} ${right} of ${runs} right`);
    wrong += runs - right;
  }
  await engine.dispose();
  process.exitCode = wrong > 0 ? 1 : 0;
}

// Do text figures err as docs/reference/text-figures.md says? Steps of independent texts and labels: p-values uniform,
// the bound's mean at most 0.005. Steps of known dependence: the interval's lower end above the truth in at most 2.5%
// of the draws, and the interval around the bound's own mean in at least 90%.
// A Markdown table on stdout, bench/results/text-calibration-<date>.json.
//
//   npm run compile && node bench/text-calibration.mjs [--draws 2000] [--permutations 999] [--seed 1] [--only K,copies]
//
// Exit status 1 where a kind misses.
import { openEngine, textMetrics } from '../dist/index.js';
import { list, readOptions, whole } from '../scripts/options.mjs';
import { uniformNumbers } from './random.mjs';
import { storeResult } from './stored.mjs';
import { dependence, dependentStep, independentSteps, uniformity } from './text-draws.mjs';

const { draws, permutations, seed, only } = readOptions({
  draws: { read: whole(1), default: '2000' },
  permutations: { read: whole(1), default: '999' },
  seed: { read: whole(0), default: '1' },
  only: { read: list(String), default: '' },
});

const engine = await openEngine({ device: 'cpu' });
const isWanted = (kind) => only.length === 0 || only.some((part) => kind.includes(part));
const mean = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;
const percent = (share) => `${(100 * share).toFixed(2)}%`;

/** Runs `measure(uniform, draw)` for all draws, some at a time. */
async function drawn(kind, measure) {
  const results = [];
  for (let draw = 0; draw < draws; draw++) {
    results.push(await measure(uniformNumbers(seed * 1_000_003 + draw * 7919 + kind * 104_729), draw));
  }
  return results;
}

// Sixteen kinds are looked at: each may be this unlikely.
const LEAST_P = 0.01 / Object.keys(independentSteps).length;
const independent = [];
console.log('| independent texts | mean bound | p ≤ 0.05 | p ≤ 0.01 | Kolmogorov distance | its p | |');
console.log('|---|---|---|---|---|---|---|');
for (const [at, [kind, stepOf]] of Object.entries(independentSteps).entries()) {
  if (!isWanted(kind)) continue;
  const results = await drawn(at, async (uniform, draw) => {
    const { values, pValue } = await textMetrics(engine, stepOf(uniform), { permutations, seed: seed * draws + draw });
    return { bound: values.mi_bound, p: pValue };
  });
  const ps = results.map(({ p }) => p);
  const { distance, pValue } = uniformity(ps, permutations);
  const bound = mean(results.map((result) => result.bound));
  const shareBelow = (level) => ps.filter((p) => p <= level).length / ps.length;
  const holds = bound <= 0.005 && pValue >= LEAST_P;
  independent.push({ kind, bound, distance, pValue, below05: shareBelow(0.05), below01: shareBelow(0.01), holds });
  console.log(
    `| ${kind} | ${bound.toFixed(4)} | ${percent(shareBelow(0.05))} | ${percent(shareBelow(0.01))} | ${distance.toFixed(4)} | ` +
      `${pValue.toFixed(3)} | ${holds ? '' : '**missed**'} |`,
  );
}

const dependent = [];
console.log('\n| labels moved | truth | mean bound | lower end above the truth | interval has the bound’s mean | |');
console.log('|---|---|---|---|---|---|');
for (const prompts of [16, 48]) {
  for (const moved of [0, 0.1, 0.25, 0.5, 0.75, 0.9]) {
    const shape = { prompts, each: 4, moved };
    const kind = `${prompts} prompts × 4, ${moved}`;
    if (!isWanted(kind)) continue;
    const truth = dependence(shape);
    const results = await drawn(100 + prompts + 10 * moved, async (uniform) => {
      const { values } = await textMetrics(engine, dependentStep(uniform, shape), { permutations: 0 });
      return [values.mi_bound, values.mi_bound_low, values.mi_bound_high];
    });
    const bound = mean(results.map(([of]) => of));
    const above = results.filter(([, low]) => low > truth).length / draws;
    const covered = results.filter(([, low, high]) => low <= bound && bound <= high).length / draws;
    const holds = above <= 0.025 && covered >= 0.9;
    dependent.push({ kind, truth, bound, above, covered, holds });
    console.log(
      `| ${kind} | ${truth.toFixed(3)} | ${bound.toFixed(3)} | ${percent(above)} | ${percent(covered)} | ` +
        `${holds ? '' : '**missed**'} |`,
    );
  }
}
await engine.dispose();
const where = await storeResult(`text-calibration-${new Date().toISOString().slice(0, 10)}`, {
  draws,
  permutations,
  seed,
  independent,
  dependent,
});
console.error(`stored in ${where}`);
if ([...independent, ...dependent].some(({ holds }) => !holds)) process.exitCode = 1;

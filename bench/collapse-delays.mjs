// Measures how soon a collapse is said: in how many computed steps after the known fall of synthetic runs the verdict
// comes. A Markdown table on stdout, bench/results/collapse-delays-<date>.json.
//
//   npm run compile && node bench/collapse-delays.mjs [--runs 1000] [--seed 1]
import { Judge } from '../dist/verdicts/index.js';
import { readOptions, whole } from '../scripts/options.mjs';
import { bell, uniformNumbers } from './random.mjs';
import { stepMetrics } from './step-metrics.mjs';
import { storeResult } from './stored.mjs';

const { runs, seed } = readOptions({
  runs: { read: whole(1), default: '1000' },
  seed: { read: whole(0), default: '1' },
});

/** Computed steps before the fall, and the most after it. */
const [BEFORE, AFTER] = [20, 100];
const COLLAPSES = new Set(['template_collapse', 'low_entropy_collapse', 'compressed']);

/**
 * `share`: what is left of a figure's start, in the end of `over` steps; `spread`: standard deviation of a step as a
 * share of the start.
 */
const FALLS = [
  { figure: 'I(X;Z)', share: 0.2, spread: 0.1, over: 1 },
  { figure: 'I(X;Z)', share: 0.35, spread: 0.1, over: 1 },
  { figure: 'I(X;Z)', share: 0.4, spread: 0.1, over: 1 },
  { figure: 'I(X;Z)', share: 0.2, spread: 0.1, over: 10 },
  { figure: 'H(Z|X)', share: 0.2, spread: 0.05, over: 1 },
  { figure: 'H(Z|X)', share: 0.4, spread: 0.05, over: 1 },
];

/** @returns {number} computed steps from the fall's first to the one that has the verdict; Infinity: none has */
function delayOf({ figure, share, spread, over }, uniform) {
  const judge = new Judge();
  for (let step = 1; step <= BEFORE + AFTER; step++) {
    const left = Math.max(share, 1 - ((1 - share) * Math.max(0, step - BEFORE)) / over);
    const value = (of, noise) => (of === figure ? left : 1) + noise * bell(uniform);
    const mi = 1.5 * value('I(X;Z)', figure === 'I(X;Z)' ? spread : 0.1);
    const entropy = 0.8 * value('H(Z|X)', figure === 'H(Z|X)' ? spread : 0.05);
    const { verdicts } = judge.add({ step, metrics: stepMetrics(mi, 0.6 * 1.5 * 0.1, entropy) });
    if (step > BEFORE && verdicts.some(({ kind }) => COLLAPSES.has(kind))) return step - BEFORE;
  }
  return Number.POSITIVE_INFINITY;
}

const shown = (delay) => (Number.isFinite(delay) ? delay : `over ${AFTER}`);
const results = [];
console.log(`${runs} runs each, ${BEFORE} computed steps before the fall, seed ${seed}\n`);
console.log(
  '| falls | to | within | scatter | said at the … computed step: median | 90% of runs |\n|---|---|---|---|---|---|',
);
for (const fall of FALLS) {
  const delays = Array.from({ length: runs }, (_, run) => delayOf(fall, uniformNumbers(seed * 1_000_003 + run * 7919)));
  delays.sort((a, b) => a - b);
  const [median, most] = [0.5, 0.9].map((share) => delays[Math.ceil(share * runs) - 1]);
  results.push({ ...fall, median: shown(median), ninety: shown(most) });
  const { figure, share, over, spread } = fall;
  const within = over === 1 ? '1 step' : `${over} steps`;
  console.log(
    `| ${figure.replace('|', '\\|')} | ${100 * share}% | ${within} | ${100 * spread}% | ${shown(median)} | ${shown(most)} |`,
  );
}
const result = { runs, before: BEFORE, seed, results };
console.error(`wrote ${await storeResult(`collapse-delays-${new Date().toISOString().slice(0, 10)}`, result, 2)}`);

// How much scoring do sampled negatives save, at what error? Part 1: the shipped runs, every step, many seeds, against
// the value from all pairs. Part 2: policies whose MI is known exactly, for what the intervals promise. Part 3: scoring
// in rounds until an interval is narrow enough. Markdown on stdout, bench/results/score-savings-<date>.json.
//
//   npm run compile && node bench/score-savings.mjs [--seeds 10] [--draws 200] [--negatives 3,4,5,6,8,11]
//
// What the columns mean: docs/guide/cheaper-scoring.md.

import { estimateFromPairs, planScores, ScoreRounds } from '../dist/exports/sampling.js';
import { openEngine, readSteps } from '../dist/index.js';
import { list, readOptions, whole } from '../scripts/options.mjs';
import { bell, uniformNumbers } from './random.mjs';
import { storeResult } from './stored.mjs';

const {
  seeds,
  draws,
  every,
  negatives: negativeCounts,
} = readOptions({
  seeds: { read: whole(1), default: '10' },
  draws: { read: whole(1), default: '200' },
  negatives: { read: list(whole(1)), default: '3,4,5,6,8,11' },
  every: { read: whole(1), default: '1' },
});
const engine = await openEngine({ device: 'cpu' });
const KEY = 'mi_seq_estimate';
const RUNS = ['collapse', 'filtered', 'healthy'];

const mean = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;
const rootMeanSquare = (values) => Math.sqrt(mean(values.map((value) => value ** 2)));
const percent = (share) => `${(100 * share).toFixed(1)}%`;
const numbers = (values) => Array.from(values, Number);
const scoresOf = (sums, { rows, prompts }) => Float64Array.from(rows, (row, at) => sums[row][prompts[at]]);
const tell = (text) => process.stderr.write(`\r\u001b[K${text}`);

function table(columns, rows) {
  console.log(`| ${columns.join(' | ')} |\n|${columns.map(() => '---|').join('')}`);
  for (const row of rows) console.log(`| ${row.join(' | ')} |`);
  console.log('');
}

/** Steps of a run with all their sums [R][P], and the figures from all pairs. */
async function stepsOf(run) {
  const steps = [];
  for await (const data of readSteps(new URL(`../examples/data/${run}`, import.meta.url).pathname)) {
    if (data.scores.kind === 'sums') throw new Error(`step ${data.step} of ${run} has sums, not log-probs of tokens`);
    const [, rows] = data.scores.shape;
    const sums = Array.from({ length: rows }, () => /** @type {number[]} */ ([]));
    for await (const { logprobs } of data.scores.blocks()) {
      const block = await engine.sumTokens(logprobs, data.lengths);
      const [count] = logprobs.shape;
      sums.forEach((scores, row) => {
        scores.push(...block.sums.data.subarray(row * count, (row + 1) * count));
      });
    }
    const input = {
      groups: numbers(data.group),
      lengths: numbers(data.lengths),
      columnGroups: numbers(data.columnGroup),
      promptTokens: data.prompts,
    };
    const all = planScores(input, { negatives: 2 ** 20 });
    steps.push({
      step: data.step,
      input,
      sums,
      full: await estimateFromPairs(engine, all, { sums: scoresOf(sums, all) }),
    });
  }
  return steps.filter((_, at) => at % every === 0);
}

/** One estimate against the value from all pairs. */
function compare(found, full, key = KEY) {
  const value = full.values[key];
  const { batch } = found.certainty[key];
  const { negatives, biasBelow, biasAbove } = found.error[key];
  const miss = found.values[key] - value;
  return {
    miss,
    fullError: full.certainty[key].batch.error,
    fullWidth: full.certainty[key].batch.high - full.certainty[key].batch.low,
    width: batch.high - batch.low,
    holds: batch.low <= value && value <= batch.high,
    holdsByDraws: miss <= 1.96 * negatives + biasBelow && -miss <= 1.96 * negatives + biasAbove,
  };
}

/** Part 1: a row a run and m. */
async function shippedRuns(runs) {
  const results = [];
  for (const [run, steps] of runs) {
    for (const negatives of negativeCounts) {
      tell(`${run}, ${negatives} negatives`);
      const found = [];
      const loo = [];
      let cost = { pairs: 0, ownPairs: 0, allPairs: 0 };
      for (const { input, sums, full, step } of steps) {
        for (let seed = 0; seed < seeds; seed++) {
          const plan = planScores(input, { negatives, seed: seed * 1009 + step });
          const estimates = await estimateFromPairs(engine, plan, { sums: scoresOf(sums, plan) });
          cost = plan.cost;
          found.push(compare(estimates, full));
          loo.push(compare(estimates, full, 'mi_seq_loo_estimate'));
        }
      }
      results.push({
        run,
        negatives,
        share: cost.pairs / cost.allPairs,
        withoutOwn: (cost.pairs - cost.ownPairs) / (cost.allPairs - cost.ownPairs),
        bias: mean(found.map(({ miss }) => miss)),
        rmse: rootMeanSquare(found.map(({ miss }) => miss)),
        responseError: rootMeanSquare(found.map(({ fullError }) => fullError)),
        holds: mean(found.map(({ holds }) => (holds ? 1 : 0))),
        holdsByDraws: mean(found.map(({ holdsByDraws }) => (holdsByDraws ? 1 : 0))),
        widening: mean(found.map(({ width }) => width)) / mean(found.map(({ fullWidth }) => fullWidth)),
        looBias: mean(loo.map(({ miss }) => miss)),
        looRmse: rootMeanSquare(loo.map(({ miss }) => miss)),
        looHolds: mean(loo.map(({ holds }) => (holds ? 1 : 0))),
      });
    }
  }
  console.log(`shipped runs: ${KEY} from some pairs against all pairs, ${seeds} seeds a step\n`);
  table(
    [
      'run',
      'm',
      'pairs',
      'bias',
      'RMSE',
      'error of responses',
      'interval holds',
      'by draws alone',
      'wider by',
      'LOO RMSE',
    ],
    results.map((one) => [
      one.run,
      one.negatives,
      percent(one.share),
      one.bias.toFixed(3),
      one.rmse.toFixed(3),
      one.responseError.toFixed(3),
      percent(one.holds),
      percent(one.holdsByDraws),
      percent(one.widening - 1),
      one.looRmse.toFixed(3),
    ]),
  );
  return results;
}

/** P policies over 128 outcomes, logits of standard deviation `strength` about common ones; K responses of each. */
function drawBatch(uniform, { prompts, rowsPerPrompt, strength }) {
  const outcomes = 128;
  const common = Array.from({ length: outcomes }, () => 0.7 * bell(uniform));
  const policies = Array.from({ length: prompts }, () => {
    const logits = common.map((logit) => logit + strength * bell(uniform));
    const total = Math.log(logits.reduce((sum, logit) => sum + Math.exp(logit), 0));
    return logits.map((logit) => logit - total);
  });
  const marginal = common.map((_, z) =>
    Math.log(policies.reduce((sum, policy) => sum + Math.exp(policy[z]) / prompts, 0)),
  );
  const trueValue = mean(
    policies.map((policy) => policy.reduce((sum, log, z) => sum + Math.exp(log) * (log - marginal[z]), 0)),
  );
  const groups = [];
  const sums = [];
  policies.forEach((policy, p) => {
    for (let k = 0; k < rowsPerPrompt; k++) {
      let left = uniform();
      let z = 0;
      while (z + 1 < outcomes && left >= Math.exp(policy[z])) left -= Math.exp(policy[z++]);
      groups.push(p);
      sums.push(policies.map((other) => other[z]));
    }
  });
  return { input: { groups, lengths: groups.map(() => 1) }, sums, trueValue };
}

/** Part 2. */
async function knownPolicies() {
  const results = [];
  // Without any dependence every estimate is exact: nothing to measure.
  const kinds = { weak: 0.3, strong: 2, bound: 6 };
  for (const [dependence, strength] of Object.entries(kinds)) {
    for (const prompts of [16, 64]) {
      for (const rowsPerPrompt of [2, 8]) {
        for (const negatives of [3, 6, 12]) {
          tell(`${dependence}, P = ${prompts}, K = ${rowsPerPrompt}, ${negatives} negatives`);
          const uniform = uniformNumbers(results.length + 1);
          const found = [];
          for (let seed = 0; seed < draws; seed++) {
            const { input, sums, trueValue } = drawBatch(uniform, { prompts, rowsPerPrompt, strength });
            const plan = planScores(input, { negatives, seed });
            const { values, certainty } = await estimateFromPairs(engine, plan, { sums: scoresOf(sums, plan) });
            const { batch } = certainty[KEY];
            if ('absent' in batch) throw new Error(`no interval: ${batch.absent}`);
            const { low, high } = batch;
            found.push({
              trueValue,
              miss: values[KEY] - trueValue,
              width: high - low,
              holds: low <= trueValue && trueValue <= high,
            });
          }
          results.push({
            dependence,
            prompts,
            rowsPerPrompt,
            negatives,
            share: (negatives + 1) / prompts,
            trueValue: mean(found.map(({ trueValue }) => trueValue)),
            bias: mean(found.map(({ miss }) => miss)),
            rmse: rootMeanSquare(found.map(({ miss }) => miss)),
            width: mean(found.map(({ width }) => width)),
            coverage: mean(found.map(({ holds }) => (holds ? 1 : 0))),
          });
        }
      }
    }
  }
  console.log(`policies of known MI: 95% batch intervals against the true value, ${draws} draws a cell\n`);
  table(
    ['dependence', 'P', 'K', 'm', 'pairs', 'true value', 'bias', 'RMSE', 'width', 'coverage'],
    results.map((one) => [
      one.dependence,
      one.prompts,
      one.rowsPerPrompt,
      one.negatives,
      percent(one.share),
      one.trueValue.toFixed(3),
      one.bias.toFixed(3),
      one.rmse.toFixed(3),
      one.width.toFixed(3),
      percent(one.coverage),
    ]),
  );
  return results;
}

/** Part 3: rounds until the interval is as narrow as asked. */
async function inRounds(runs) {
  const results = [];
  for (const [run, steps] of runs) {
    for (const width of [0.8, 0.5, 0.3]) {
      tell(`${run}, rounds to ${width}`);
      const found = [];
      const reasons = {};
      for (const { input, sums, full, step } of steps) {
        for (let seed = 0; seed < Math.ceil(seeds / 4); seed++) {
          const rounds = new ScoreRounds(engine, input, { width, seed: seed * 1009 + step });
          for (let round = rounds.next(); round !== undefined; round = rounds.next()) {
            await rounds.add({ sums: scoresOf(sums, round) });
          }
          const { reason, estimates } = rounds.result();
          if (estimates === undefined) throw new Error(`no estimates: ${reason}`);
          reasons[reason] = (reasons[reason] ?? 0) + 1;
          found.push({ ...compare(estimates, full), share: estimates.cost.pairs / estimates.cost.allPairs });
        }
      }
      results.push({
        run,
        width,
        share: mean(found.map(({ share }) => share)),
        rmse: rootMeanSquare(found.map(({ miss }) => miss)),
        holds: mean(found.map(({ holds }) => (holds ? 1 : 0))),
        reached: mean(found.map((one) => (one.width <= width ? 1 : 0))),
        reasons,
      });
    }
  }
  console.log('in rounds: until the interval is as narrow as asked\n');
  table(
    ['run', 'wanted width', 'pairs', 'width reached', 'RMSE', 'interval holds', 'why it ended'],
    results.map((one) => [
      one.run,
      one.width,
      percent(one.share),
      percent(one.reached),
      one.rmse.toFixed(3),
      percent(one.holds),
      Object.entries(one.reasons)
        .map(([reason, count]) => `${reason} ${count}`)
        .join(', '),
    ]),
  );
  return results;
}

const runs = [];
for (const run of RUNS) runs.push([run, await stepsOf(run)]);
const shipped = await shippedRuns(runs);
const known = await knownPolicies();
const rounds = await inRounds(runs);
await engine.dispose();
tell('');

console.error(
  `wrote ${await storeResult(`score-savings-${new Date().toISOString().slice(0, 10)}`, { seeds, draws, shipped, known, rounds })}`,
);

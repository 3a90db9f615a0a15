// Measures whether intervals and p-values keep their promise: by a model whose mutual information is known, the share of
// draws whose 95% interval holds the true value, per cell; a Markdown table on stdout, bench/results/coverage-<date>.json.
//
//   npm run compile && node bench/coverage.mjs [--draws 2000] [--seed 1] [--threads 2]
//     [--only zero,weak,strong,bound,saturated,uneven,lengths]
//
// Exit status 1 if a bar is missed. What `batch` and `population` mean: docs/reference/intervals.md.
import { openEngine } from '../dist/index.js';
import { list, oneOf, readOptions, whole } from '../scripts/options.mjs';
import { bell, uniformNumbers } from './random.mjs';
import { storeResult } from './stored.mjs';

// `zero` has noise in its scores: with exact ones every figure would be zero exactly and every permutation tie.
const kinds = {
  zero: { strength: 0, noise: 0.3 },
  weak: { strength: 0.3, noise: 0 },
  strong: { strength: 2, noise: 0 },
  bound: { strength: 6, noise: 0 },
  saturated: { strength: 14, noise: 0 },
};
const groupsOfCells = [...Object.keys(kinds), 'uneven', 'lengths'];
const { draws, seed, threads, only } = readOptions({
  draws: { read: whole(1), default: '2000' },
  seed: { read: whole(0), default: '1' },
  threads: { read: whole(1), default: '2' },
  only: { read: list(oneOf(groupsOfCells)), default: groupsOfCells.join() },
});
const permutations = 999;
const poolSize = 256;
const figureNames = {
  miSeq: 'mi_seq_estimate',
  miPerToken: 'mi_per_token',
  miToken: 'mi_estimate',
  retrieval1: 'retrieval_accuracy',
};

/**
 * Policies p(z|x) for `poolSize` prompts x: z is a sequence of up to `tokens` tokens, each from a categorical of its
 * own (given x and the place), token 0 ends it. All sequences are enumerated, so every expectation is an exact sum.
 * `strength` scales how far the logits depend on x; of several, prompts have them by turns. With `longest`, sequences
 * have 1 to `longest` tokens instead, whatever they are made of.
 * @returns {{ logProbs: Float64Array[], lengths: number[] }} logProbs[x][z]
 */
function makeModel(uniform, { vocabulary, tokens, strength, longest }) {
  const places = Array.from({ length: tokens }, () => Array.from({ length: vocabulary }, () => 0.7 * bell(uniform)));
  const sequences = [];
  const extend = (sequence) => {
    if (sequence.length === tokens || sequence.at(-1) === 0) sequences.push(sequence);
    else for (let token = 0; token < vocabulary; token++) extend([...sequence, token]);
  };
  extend([]);
  const strengths = [strength].flat();
  const logProbs = Array.from({ length: poolSize }, (_, x) => {
    const perPlace = places.map((common) => {
      const logits = common.map((logit) => logit + strengths[x % strengths.length] * bell(uniform));
      const total = Math.log(logits.reduce((sum, logit) => sum + Math.exp(logit), 0));
      return logits.map((logit) => logit - total);
    });
    return Float64Array.from(sequences, (sequence) =>
      sequence.reduce((sum, token, place) => sum + perPlace[place][token], 0),
    );
  });
  const lengthOf = ({ length }) => (longest === undefined ? length : 1 + Math.floor(uniform() * longest));
  return { logProbs, lengths: sequences.map(lengthOf) };
}

/**
 * One batch: prompts of the pool with `rowsOf` rows each. `scores[p][z]` is what the rows are scored with; with `noise`
 * the policy ignores its prompt and the scores differ from it by noise alone.
 */
function drawBatch(model, uniform, { prompts, rowsOf, noise }) {
  const outcomes = model.lengths.length;
  const order = Int32Array.from({ length: poolSize }, (_, x) => x);
  const policies = [];
  const scores = [];
  for (let p = 0; p < prompts; p++) {
    const other = p + Math.floor(uniform() * (poolSize - p));
    [order[p], order[other]] = [order[other], order[p]];
    const logProbs = model.logProbs[noise > 0 ? 0 : order[p]];
    policies.push(logProbs);
    scores.push(noise > 0 ? logProbs.map((value) => value + noise * bell(uniform)) : logProbs);
  }
  // The scores' mean over prompts, and that of the scores per token, for every z; then the batch's true values.
  const [marginal, marginalToken, best] = [0, 0, -Infinity].map((start) => new Float64Array(outcomes).fill(start));
  for (const score of scores) {
    for (let z = 0; z < outcomes; z++) {
      marginal[z] += Math.exp(score[z]) / prompts;
      marginalToken[z] += Math.exp(score[z] / model.lengths[z]) / prompts;
      best[z] = Math.max(best[z], score[z]);
    }
  }
  const [logMarginal, logMarginalToken] = [marginal, marginalToken].map((means) => means.map(Math.log));
  const valuesOf = (score, z) => {
    const gain = score[z] - logMarginal[z];
    const length = model.lengths[z];
    return {
      miSeq: gain,
      miPerToken: gain / length,
      miToken: score[z] / length - logMarginalToken[z],
      retrieval1: score[z] === best[z] ? 1 : 0,
    };
  };
  const trueValues = Object.fromEntries(Object.keys(figureNames).map((figure) => [figure, 0]));
  const ofPrompts = new Float64Array(prompts); // miSeq of each prompt's own rows
  const rows = rowsOf.reduce((sum, count) => sum + count, 0);
  const data = new Float64Array(rows * prompts);
  const own = new Int32Array(rows);
  const lengths = [];
  for (let p = 0, r = 0; p < prompts; p++) {
    const probabilities = policies[p].map(Math.exp);
    for (let z = 0; z < outcomes; z++) {
      const values = valuesOf(scores[p], z);
      for (const figure in trueValues) trueValues[figure] += (rowsOf[p] / rows) * probabilities[z] * values[figure];
      ofPrompts[p] += probabilities[z] * values.miSeq;
    }
    for (let k = 0; k < rowsOf[p]; k++, r++) {
      let left = uniform();
      let z = 0;
      while (z + 1 < outcomes && left >= probabilities[z]) left -= probabilities[z++];
      for (let q = 0; q < prompts; q++) data[r * prompts + q] = scores[q][z];
      own[r] = p;
      lengths.push(model.lengths[z]);
    }
  }
  return { sums: { data, dtype: 'float64', shape: [rows, prompts] }, own, lengths, trueValues, ofPrompts };
}

const holds = (low, value, high) => (low <= value && value <= high ? 1 : 0);

/** Of the prompts that have an interval: the share whose interval holds the true value, and the intervals' mean width. */
function promptsHeld({ low, high }, trueValues) {
  let [intervals, held, width] = [0, 0, 0];
  trueValues.forEach((value, p) => {
    if (Number.isNaN(low[p])) return;
    intervals++;
    held += holds(low[p], value, high[p]);
    width += high[p] - low[p];
  });
  return { intervals, held, width };
}

/** P(Kolmogorov's distance of n uniform numbers >= that of `values`), after Stephens (1970). */
function kolmogorovSmirnov(values) {
  const sorted = Float64Array.from(values).sort();
  const n = sorted.length;
  let distance = 0;
  sorted.forEach((value, i) => {
    distance = Math.max(distance, Math.abs(value - i / n), Math.abs(value - (i + 1) / n));
  });
  const scaled = distance * (Math.sqrt(n) + 0.12 + 0.11 / Math.sqrt(n));
  if (scaled < 0.3) return 1; // the series converges too slowly there; the value is 1 to nine digits
  let sum = 0;
  for (let k = 1; k < 100; k++) sum += (k % 2 ? 2 : -2) * Math.exp(-2 * (k * scaled) ** 2);
  return Math.min(1, Math.max(0, sum));
}

async function measure(engine, cell) {
  const uniform = uniformNumbers(seed * 1000003 + cell.index);
  const model = makeModel(uniform, cell);
  const found = [];
  const work = async (draw) => {
    const { sums, own, lengths, trueValues, ofPrompts } = drawBatch(model, uniform, cell);
    const stats = await engine.scoreStats(sums, { own, lengths });
    const each = await engine.promptMatrices(sums, stats, { own, lengths, matrices: false });
    const options = { own, lengths, permutations: cell.noise > 0 ? permutations : 0, seed: draw };
    const { figures } = await engine.inferStep(sums, stats, options);
    found[draw] = { figures, trueValues, prompts: promptsHeld(each, ofPrompts) };
  };
  // A few draws at a time, so that the engine's threads do not wait for the sampling of the next batch.
  for (let first = 0; first < draws; first += 8) {
    await Promise.all(Array.from({ length: Math.min(8, draws - first) }, (_, i) => work(first + i)));
  }
  const mean = (of) => found.reduce((sum, one) => sum + of(one), 0) / draws;
  const figures = {};
  for (const figure of Object.keys(figureNames)) {
    const of = (one) => one.figures[figure];
    // The population's value is the mean of the batch's over batches: these ones, each of them exact.
    const population = mean((one) => one.trueValues[figure]);
    figures[figure] = {
      trueValue: population,
      batch: mean((one) => holds(of(one).batchLow, one.trueValues[figure], of(one).batchHigh)),
      batchWidth: mean((one) => of(one).batchHigh - of(one).batchLow),
      population: mean((one) => holds(of(one).populationLow, population, of(one).populationHigh)),
      populationWidth: mean((one) => of(one).populationHigh - of(one).populationLow),
    };
  }
  const intervals = mean(({ prompts }) => prompts.intervals);
  const result = {
    dependence: cell.dependence,
    tokens: cell.tokens,
    P: cell.prompts,
    K: cell.rowsPerPrompt,
    ...(cell.sizes && { sizes: cell.sizes }),
    figures,
    prompts: {
      held: mean(({ prompts }) => prompts.held) / intervals,
      width: mean(({ prompts }) => prompts.width) / intervals,
    },
    shareOfBound: figures.miSeq.trueValue / Math.log(cell.prompts),
    uniformity: cell.noise > 0 ? kolmogorovSmirnov(found.map((one) => one.figures.miSeq.pValue)) : null,
  };
  const missed = [];
  const large = cell.rowsPerPrompt !== undefined && cell.prompts * cell.rowsPerPrompt >= 128;
  if (large && !holds(0.93, figures.miSeq.batch, 0.97)) missed.push('batch outside 93-97%');
  for (const [figure, { batch, population }] of Object.entries(figures)) {
    const least = cell.least ?? 0.9;
    if (batch < least) missed.push(`${figureNames[figure]}: batch below ${percent(least)}`);
    if (population < least) missed.push(`${figureNames[figure]}: population below ${percent(least)}`);
  }
  // 1e-4: several cells are tested at once.
  if (result.uniformity !== null && result.uniformity < 1e-4) missed.push('p-values not uniform');
  return { ...result, missed };
}

const alphabets = [
  { vocabulary: 128, tokens: 1 },
  { vocabulary: 5, tokens: 3 },
];
const cells = [];
for (const dependence of only.filter((name) => name in kinds)) {
  for (const prompts of [8, 16, 64]) {
    for (const rowsPerPrompt of [2, 4, 8]) {
      // One token and several by turns: every P and every K meets both.
      const alphabet = alphabets[cells.length % alphabets.length];
      const rowsOf = Array(prompts).fill(rowsPerPrompt);
      cells.push({
        index: cells.length,
        dependence,
        prompts,
        rowsPerPrompt,
        rowsOf,
        ...alphabet,
        ...kinds[dependence],
      });
    }
  }
}

// Groups of very different sizes; in `mixed`, half of the prompts decide nearly everything and half nearly nothing.
const halves = [1, 1, 2, 2, 4, 8, 16, 32];
const sizes = { halves, 'one of 40': [40, 2, 2, 2, 2, 2, 2, 2], 'halves twice': [...halves, ...halves] };
const mixed = { strength: [0.3, 6], noise: 0 };
const uneven = [];
for (const [dependence, kind] of Object.entries({ strong: kinds.strong, bound: kinds.bound, mixed })) {
  Object.entries(sizes).forEach(([name, rowsOf], at) => {
    const cell = { dependence, sizes: name, prompts: rowsOf.length, rowsOf, ...alphabets[at % 2], ...kind };
    // Of mixed prompts a few decide, and the rest does not show it (docs/reference/intervals.md).
    uneven.push({ index: 1000 + uneven.length, ...cell, least: dependence === 'mixed' ? 0.8 : 0.9 });
  });
}
// Lengths that have nothing to do with the tokens, and prompts with so few rows that they hardly show them.
const lengths = [];
for (const dependence of ['strong', 'bound', 'saturated']) {
  for (const [prompts, rowsPerPrompt] of [
    [8, 1],
    [8, 2],
    [16, 2],
  ]) {
    const rowsOf = Array(prompts).fill(rowsPerPrompt);
    const cell = { dependence, sizes: 'lengths 1-13', prompts, rowsPerPrompt, rowsOf, ...alphabets[0], longest: 13 };
    lengths.push({ index: 2000 + lengths.length, ...cell, ...kinds[dependence], least: 0.7 });
  }
}
if (only.includes('uneven')) cells.push(...uneven);
if (only.includes('lengths')) cells.push(...lengths);

const percent = (share) => `${(100 * share).toFixed(1)}%`;
const engine = await openEngine({ device: 'cpu', threads });
const results = [];
console.log(`${draws} draws a cell, 95% intervals, p-values of mi_seq_estimate with ${permutations} permutations\n`);
const names = Object.values(figureNames).map((name) => `${name}: batch | population`);
console.log(
  `| dependence | tokens | P | K | rows | MI | of ln P | ${names.join(' | ')} | widths of MI | each prompt | width | KS p | |`,
);
console.log(`|---|---|---|---|---|---|---|${'---|'.repeat(2 * names.length + 5)}`);
for (const cell of cells) {
  process.stderr.write(
    `\r${results.length + 1}/${cells.length} ${cell.dependence} P=${cell.prompts} K=${cell.rowsPerPrompt ?? cell.sizes}   `,
  );
  const one = await measure(engine, cell);
  results.push(one);
  const { miSeq } = one.figures;
  const columns = [
    one.dependence,
    one.tokens,
    one.P,
    one.K ?? '',
    one.sizes ?? '',
    miSeq.trueValue.toFixed(4),
    percent(one.shareOfBound),
  ];
  for (const { batch, population } of Object.values(one.figures)) columns.push(percent(batch), percent(population));
  columns.push(`${miSeq.batchWidth.toFixed(3)}, ${miSeq.populationWidth.toFixed(3)}`);
  columns.push(percent(one.prompts.held), one.prompts.width.toFixed(3)); // NaN where no prompt has two rows
  columns.push(one.uniformity === null ? '' : one.uniformity.toFixed(2), one.missed.join('; '));
  console.log(`| ${columns.join(' | ')} |`);
}
process.stderr.write('\n');
await engine.dispose();

console.error(
  `wrote ${await storeResult(`coverage-${new Date().toISOString().slice(0, 10)}`, { draws, seed, permutations, results })}`,
);
process.exitCode = results.some((one) => one.missed.length > 0) ? 1 : 0;

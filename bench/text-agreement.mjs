// Measures how well the text bound agrees with the cross-scored I(X;Z), on runs that have both: Spearman's correlation over
// those steps, how often the bound is above the estimate, and where each is below half of its start. A Markdown table on stdout.
//
//   npm run compile && node bench/text-agreement.mjs [RUN…]
//
// A RUN is a folder of step files with response_ids (and prompt_ids), or one with `steps/` (step files) and `completions/` (texts).
// Default: the shipped runs.
import { readdirSync } from 'node:fs';
import { basename, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { readRollouts, textStepOf } from '../dist/exports/logs.js';
import { analyze, openEngine, readSteps, textMetrics } from '../dist/index.js';
import { correlate } from '../dist/verdicts/statistics/correlation.js';

const shipped = ['collapse', 'filtered', 'healthy'].map((run) =>
  fileURLToPath(new URL(`../examples/data/${run}`, import.meta.url)),
);
const runs = process.argv.length > 2 ? process.argv.slice(2) : shipped;
const engine = await openEngine({ device: 'cpu' });

/** I(X;Z) by step. */
async function scored(folder) {
  const found = new Map();
  for await (const { step, samples } of analyze(folder, { engine, permutations: 0 })) {
    found.set(step, samples[0]?.values.mi_seq_estimate);
  }
  return found;
}

/** The token ids of a step file's responses, as texts. */
async function idsOf({ responseIds, lengths, group, prompts, columnGroup }) {
  const [rows, most] = responseIds.shape;
  const tokens = Array.from({ length: rows }, (_, row) =>
    responseIds.data.slice(row * most, row * most + Number(lengths[row])),
  );
  const promptOf = new Map(Array.from(columnGroup, (id, column) => [String(id), prompts?.[column]]));
  const promptTokens = Array.from(group, (id) => promptOf.get(String(id)));
  const step = { tokens, groups: Array.from(group), ...(prompts && { promptTokens }) };
  return textMetrics(engine, step, { permutations: 0 });
}

async function written(folder) {
  const found = new Map();
  const isLog = readdirSync(folder).includes('completions');
  if (isLog) {
    for await (const step of readRollouts(join(folder, 'completions'))) {
      const texts = textStepOf(step);
      if (texts === undefined) throw new Error(`step ${step.step} of ${folder} has no texts`);
      found.set(step.step, (await textMetrics(engine, texts, { permutations: 0 })).values.mi_bound);
    }
  } else {
    for await (const step of readSteps(folder)) found.set(step.step, (await idsOf(step)).values.mi_bound);
  }
  return found;
}

const number = (value) => (value === undefined ? '' : value.toFixed(2));

/** First step from which a figure stays below half of the mean of its first five to the end of a stretch of two. */
function halved(steps) {
  const start = steps.slice(0, 5).reduce((sum, [, value]) => sum + value, 0) / 5;
  const at = steps.findIndex(([, value], index) => value < start / 2 && (steps[index + 1]?.[1] ?? 0) < start / 2);
  return at < 0 ? 'never' : String(steps[at][0]);
}

console.log('| run | steps | Spearman [95%] | bound above I(X;Z) | I(X;Z) | bound | halved (I(X;Z), bound) |');
console.log('|---|---|---|---|---|---|---|');
let [above, all] = [0, 0];
for (const folder of runs) {
  const steps = readdirSync(folder).includes('steps') ? join(folder, 'steps') : folder;
  const [mi, bound] = [await scored(steps), await written(folder)];
  const both = [...mi.keys()].filter((step) => mi.get(step) !== undefined && bound.get(step) !== undefined);
  const [x, y] = [mi, bound].map((of) => both.map((step) => [step, of.get(step)]));
  const pair = correlate(
    x.map(([, value]) => value),
    y.map(([, value]) => value),
  );
  if (typeof pair === 'string') throw new Error(`${folder}: ${pair}`);
  const over = both.filter((step) => bound.get(step) > mi.get(step)).length;
  above += over;
  all += both.length;
  const { estimate, low, high } = pair.spearman;
  const ends = (of) => `${number(of[0][1])} to ${number(of.at(-1)[1])}`;
  console.log(
    `| ${basename(folder)} | ${both.length} | ${number(estimate)} [${number(low)}, ${number(high)}] | ${over} | ${ends(x)} | ${ends(y)} | ${halved(x)}, ${halved(y)} |`,
  );
}
console.log(`\n${above} of ${all} steps have a bound above the cross-scored estimate.`);
await engine.dispose();

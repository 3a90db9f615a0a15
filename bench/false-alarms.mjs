// Measures how often a healthy run is called ill: the share of synthetic healthy runs of several kinds in which any collapse, early warning or entropy verdict was given at any step, against the rate that
// docs/reference/verdicts.md states at most. A Markdown table on stdout, bench/results/false-alarms-<date>.json.
//
//   npm run compile && node bench/false-alarms.mjs [--runs 200] [--steps 51] [--seed 1] [--only flat,policy]
//
// `dependence_lower` has rates of its own, in a second table: it is said of losses that the others call healthy.
//
// Exit status 1 if the 95% binomial interval (Clopper–Pearson) of a measured rate lies above the stated one. Criticals are counted by
// themselves, too.
import { crossScoreMetrics, openEngine, textMetrics } from '../dist/index.js';
import { Judge } from '../dist/verdicts/index.js';
import { list, readOptions, whole, wrongUsage } from '../scripts/options.mjs';
import { byChance, even, mixedScores, mixedTexts, namesOf } from './mixed-runs.mjs';
import { bell, uniformNumbers } from './random.mjs';
import { stepMetrics } from './step-metrics.mjs';
import { storeResult } from './stored.mjs';
import { drawnTexts, markedTexts, shortRows, writtenTexts } from './text-runs.mjs';

const { runs, steps, seed, only } = readOptions({
  runs: { read: whole(1), default: '200' },
  steps: { read: whole(1), default: '51' },
  seed: { read: whole(0), default: '1' },
  only: { read: list(String), default: '' },
});

const ALARMS = new Set([
  'template_collapse',
  'low_entropy_collapse',
  'compressed',
  'input_agnostic',
  'start_falling',
  'margin_falling',
  'mi_falling',
  'mi_overshoot',
  'entropy_gaming',
  'template_grows',
  'repetition_loop',
  'copies',
  'scores_mismatched',
]);

/**
 * A run whose figures scatter about their levels.
 * @param {object} figures
 * @param {number} figures.spread  standard deviation of a step as a share of the level
 * @param {number} [figures.memory]  correlation of neighbouring steps
 * @param {(step: number) => number} [figures.level]  where MI stands, 1 at the start
 * @param {number} [figures.entropySpread]
 * @param {number} [figures.height]
 */
function drawnFigures({ spread, memory = 0, level = () => 1, entropySpread = 0.05, height: most = 1.5 }) {
  return async function* (uniform) {
    let [mi, entropy, margin] = [bell(uniform), bell(uniform), bell(uniform)];
    for (let at = 1; at <= steps; at++) {
      const fresh = Math.sqrt(1 - memory ** 2);
      mi = memory * mi + fresh * bell(uniform);
      entropy = memory * entropy + fresh * bell(uniform);
      // The margin scatters with MI in part, and on its own.
      margin = memory * margin + fresh * (0.6 * mi + 0.8 * bell(uniform));
      // Part of the scatter is that of the batch, which its interval knows; the rest is the prompts' and the policy's.
      const figure = (height, scatter) => ({
        value: height * (level(at) + spread * scatter),
        error: 0.6 * height * spread,
      });
      const { value, error } = figure(most, mi);
      const metrics = stepMetrics(value, error, 0.8 * (1 + entropySpread * entropy), {
        mi_seq_margin: figure(12, margin),
      });
      yield { metrics: { ...metrics, values: { ...metrics.values, mi_seq_standard_error: error } } };
    }
  };
}

/**
 * A fixed policy p(z|x) over 64 sequences; each step draws some of 256 prompts and some responses of each, scored exactly.
 * @param {import('../dist/index.js').Engine} engine
 * @param {object} [policy]
 * @param {number} [policy.scale]  standard deviation of its logits: how much it depends on its prompt
 * @param {(uniform: () => number) => number} [policy.prompts]  of a step
 * @param {number} [policy.rollouts]  of each prompt
 * @param {number} [policy.permutations]
 */
function drawnPolicy(engine, { scale = 1.8, prompts: promptsOf = () => 16, rollouts = 8, permutations = 0 } = {}) {
  const [pool, kinds] = [256, 64];
  return async function* (uniform) {
    const table = Array.from({ length: pool }, () => {
      const logits = Array.from({ length: kinds }, () => scale * bell(uniform));
      const norm = Math.log(logits.reduce((sum, logit) => sum + Math.exp(logit), 0));
      return logits.map((logit) => logit - norm);
    });
    for (let at = 1; at <= steps; at++) {
      const prompts = promptsOf(uniform);
      const chosen = new Set();
      while (chosen.size < prompts) chosen.add(Math.floor(uniform() * pool));
      const columns = [...chosen].map((prompt) => table[prompt]);
      const sums = new Float64Array(prompts * rollouts * prompts);
      const groups = [];
      for (let row = 0; row < prompts * rollouts; row++) {
        const own = Math.floor(row / rollouts);
        groups.push(own);
        let left = uniform();
        let z = 0;
        while (z < kinds - 1 && left > Math.exp(columns[own][z])) left -= Math.exp(columns[own][z++]);
        for (let p = 0; p < prompts; p++) sums[row * prompts + p] = columns[p][z];
      }
      const metrics = await crossScoreMetrics(
        engine,
        {
          sums: { data: sums, dtype: 'float64', shape: [groups.length, prompts] },
          lengths: groups.map(() => 1),
          groups,
        },
        { permutations },
      );
      yield { metrics };
    }
  };
}

/**
 * A batch of some environments of four prompts and six rows each, whose figures scatter each by itself; of one the batch is
 * all there is.
 */
function drawnEnvironments(count, spread = 0.2) {
  const draws = (uniform) => Array.from({ length: count }, () => drawnFigures({ spread, height: 0.9 })(uniform));
  const about = { columns: { total: 4, distinct: 4 }, rows: { total: 24, used: 24, zeroLength: 0, nonFinite: [] } };
  return async function* (uniform) {
    const each = draws(uniform);
    for (let at = 1; at <= steps; at++) {
      const environments = [];
      for (const [place, draw] of each.entries()) {
        const { metrics } = /** @type {{ metrics: object }} */ ((await draw.next()).value);
        environments.push({ name: `env-${place}`, rows: 24, prompts: 4, figures: { ...metrics, ...about } });
      }
      const [{ figures }] = environments;
      yield { metrics: count === 1 ? figures : { ...figures, environments } };
    }
  };
}

/** The same of a policy that is known exactly, by its scores or by its texts. */
function mixedPolicy(engine, count, countsOf, { source = 'scores', rows = 6 } = {}) {
  return async function* (uniform) {
    const names = namesOf(count);
    const options = { permutations: 99 };
    for (let at = 1; at <= steps; at++) {
      const counts = countsOf(names, uniform);
      if (source === 'texts') {
        yield {
          texts: await textMetrics(
            engine,
            mixedTexts(counts, rows, () => 0.3, uniform),
            options,
          ),
        };
      } else {
        yield {
          metrics: await crossScoreMetrics(
            engine,
            mixedScores(counts, rows, () => 1.8, uniform),
            options,
          ),
        };
      }
    }
  };
}

const engine = await openEngine();

const COUNTS = [4, 6, 8, 12, 16, 32, 64];
/** Another number of prompts at each step. */
const ragged = (uniform) => COUNTS[Math.floor(uniform() * COUNTS.length)];
/** 32 prompts, and 4 in one step of ten. */
const sometimesFew = (uniform) => (uniform() < 0.1 ? 4 : 32);

/** `stated`: the most that docs/reference/verdicts.md states, for runs of up to 51 and of up to 200 computed steps. */
const MODELS = {
  flat: { stated: [0.005, 0.01], words: 'level, scatter 10%', draw: drawnFigures({ spread: 0.1 }) },
  noisy: { stated: [0.02, 0.05], words: 'level, scatter 30%', draw: drawnFigures({ spread: 0.3 }) },
  alike: {
    stated: [0.02, 0.03],
    words: 'level, scatter 10%, neighbours alike (.5)',
    draw: drawnFigures({ spread: 0.1, memory: 0.5 }),
  },
  rising: {
    stated: [0.005, 0.01],
    words: 'rises by half over 20 steps, neighbours alike (.5)',
    draw: drawnFigures({ spread: 0.1, memory: 0.5, level: (at) => 1 + 0.5 * Math.min(1, at / 20) }),
  },
  edge: {
    stated: [0.01, 0.02],
    words: 'settles at 3/4 of its start, scatter 10%',
    draw: drawnFigures({ spread: 0.1, level: (at) => (at <= 5 ? 1 : 0.75) }),
  },
  'noisy-edge': {
    stated: [0.02, 0.05],
    words: 'settles at 3/4 of its start, scatter 15%',
    draw: drawnFigures({ spread: 0.15, level: (at) => (at <= 5 ? 1 : 0.75) }),
  },
  'alike-edge': {
    stated: [0.025, 0.05],
    words: 'settles at 3/4 of its start, scatter 10%, neighbours alike (.5)',
    draw: drawnFigures({ spread: 0.1, memory: 0.5, level: (at) => (at <= 5 ? 1 : 0.75) }),
  },
  policy: { stated: [0.005, 0.005], words: 'a fixed policy, other prompts at each step', draw: drawnPolicy(engine) },
  ragged: {
    stated: [0.005, 0.005],
    words: 'a fixed policy, 4 to 64 prompts a step',
    draw: drawnPolicy(engine, { prompts: ragged }),
  },
  'few-prompts': {
    stated: [0.005, 0.005],
    words: 'a fixed policy, 32 prompts a step, 4 in one of ten',
    draw: drawnPolicy(engine, { prompts: sometimesFew }),
  },
  'ragged-weak': {
    stated: [0.005, 0.01],
    words: 'a fixed policy that depends little on its prompt, 4 to 64 prompts a step',
    draw: drawnPolicy(engine, { scale: 1, prompts: ragged, permutations: 99 }),
  },
  ...Object.fromEntries(
    [1, 4, 16, 64].map((count) => [
      `environments-${count}`,
      {
        stated: [0.02, 0.05],
        words: `${count} environment${count === 1 ? '' : 's'} of 4 prompts, scatter 20% each`,
        draw: drawnEnvironments(count),
      },
    ]),
  ),
  'mixed-policy': {
    stated: [0.02, 0.05],
    words: 'a fixed policy of 4 environments, 4 prompts of each',
    draw: mixedPolicy(engine, 4, (names) => even(names, 4)),
  },
  'mixture-changes': {
    stated: [0.02, 0.05],
    words: 'a fixed policy of 4 environments, 16 prompts that fall on them by chance',
    draw: mixedPolicy(engine, 4, (names, uniform) => byChance(names, 16, uniform)),
  },
  ...Object.fromEntries(
    ['scores', 'texts'].flatMap((source) => [
      [
        `pairs-${source}`,
        {
          stated: [0.02, 0.05],
          words: `a fixed policy of 8 environments, 2 prompts × 8 rows of each, by ${source}`,
          draw: mixedPolicy(engine, 8, (names) => even(names, 2), { source, rows: 8 }),
        },
      ],
      [
        `pairs-change-${source}`,
        {
          stated: [0.02, 0.05],
          words: `a fixed policy of 8 environments, 16 prompts × 8 rows that fall on them by chance, by ${source}`,
          draw: mixedPolicy(engine, 8, (names, uniform) => byChance(names, 16, uniform), { source, rows: 8 }),
        },
      ],
    ]),
  ),
  'texts-ceiling': {
    stated: [0.01, 0.02],
    words: 'texts at their ceiling, scatter 5%',
    draw: drawnTexts({ height: 3.2, spread: 0.05 }, steps),
  },
  'texts-level': {
    stated: [0.01, 0.02],
    words: 'texts, bound at half of its ceiling, scatter 10%',
    draw: drawnTexts({ height: 1.4, spread: 0.1 }, steps),
  },
  'texts-alike': {
    stated: [0.02, 0.03],
    words: 'texts, the same, neighbours alike (.5)',
    draw: drawnTexts({ height: 1.4, spread: 0.1, memory: 0.5 }, steps),
  },
  'texts-noisy': {
    stated: [0.025, 0.05],
    words: 'texts, bound at half of its ceiling, scatter 25%',
    draw: drawnTexts({ height: 1.4, spread: 0.25 }, steps),
  },
  'texts-edge': {
    stated: [0.025, 0.05],
    words: 'texts settle at 3/4 of their start, scatter 10%',
    draw: drawnTexts({ height: 1.4, spread: 0.1, level: (at) => (at <= 5 ? 1 : 0.75) }, steps),
  },
  'texts-alike-edge': {
    stated: [0.025, 0.05],
    words: 'texts settle at 3/4 of their start, scatter 10%, neighbours alike (.5)',
    draw: drawnTexts({ height: 1.4, spread: 0.1, memory: 0.5, level: (at) => (at <= 5 ? 1 : 0.75) }, steps),
  },
  'texts-written': {
    stated: [0.01, 0.02],
    words: 'texts of a fixed policy, other prompts at each step',
    draw: writtenTexts(engine, { own: 0.3 }, steps),
  },
  'texts-weak': {
    stated: [0.02, 0.03],
    words: 'texts of a fixed policy that depend little on their prompt',
    draw: writtenTexts(engine, { own: 0.15 }, steps),
  },
  'texts-ragged': {
    stated: [0.01, 0.02],
    words: 'texts of a fixed policy, 4 to 64 prompts a step',
    draw: writtenTexts(engine, { own: 0.3, promptsOf: ragged }, steps),
  },
};

/**
 * The most that docs/reference/verdicts.md states for `dependence_lower`, as an information and as a warning, each for runs
 * of up to 51 and of up to 200 computed steps; null: what is lost is said, as it should be.
 */
const FALLS = {
  flat: [
    [0.005, 0.005],
    [0.005, 0.005],
  ],
  alike: [
    [0.01, 0.02],
    [0.005, 0.005],
  ],
  'texts-ragged': [
    [0.01, 0.02],
    [0.005, 0.005],
  ],
  edge: [null, [0.005, 0.005]],
  'noisy-edge': [null, [0.005, 0.005]],
  'alike-edge': [null, [0.04, 0.05]],
  'texts-edge': [null, [0.005, 0.005]],
  'texts-alike-edge': [null, [0.04, 0.05]],
};
const fallsOf = (name) => FALLS[name] ?? FALLS[/alike/.test(name) ? 'alike' : 'flat'];

/** Runs that only `dependence_lower` has stated rates for. */
function jumping(uniform) {
  let level = 1;
  return () => {
    const isNew = uniform() < 0.05;
    const next = 0.85 + 0.3 * uniform();
    if (isNew) level = next;
    return level;
  };
}
const FALL_MODELS = {
  declining: {
    words: 'declines evenly to 0.85 of its start, scatter 10%',
    draw: drawnFigures({ spread: 0.1, level: (at) => 1 - (0.15 * at) / steps }),
  },
  curriculum: {
    words: 'prompts of another difficulty in one step of 20: level 0.85 to 1.15, scatter 10%',
    draw: (uniform) => drawnFigures({ spread: 0.1, level: jumping(uniform) })(uniform),
    falls: [
      [0.01, 0.02],
      [0.005, 0.005],
    ],
  },
  wandering: {
    words: 'level, scatter 10%, neighbours alike (.6)',
    draw: drawnFigures({ spread: 0.1, memory: 0.6 }),
    falls: [
      [0.03, 0.05],
      [0.005, 0.005],
    ],
  },
};

/**
 * Exact scores of a policy that gives one response nearly always, whatever the prompt, and now and then one that is the prompt's own:
 * batches without a rare one lie below 0, all rows alike.
 */
function nearlyCollapsed(engine, { prompts = 16, rollouts = 8, rare = 0.01 } = {}) {
  const groups = Array.from({ length: prompts * rollouts }, (_, row) => Math.floor(row / rollouts));
  return async function* (uniform) {
    for (let at = 1; at <= steps; at++) {
      const shares = Array.from({ length: prompts }, () => 2 * rare * uniform());
      const data = new Float64Array(groups.length * prompts);
      for (const [row, own] of groups.entries()) {
        const isRare = uniform() < shares[own];
        for (let p = 0; p < prompts; p++)
          data[row * prompts + p] = isRare ? (p === own ? Math.log(shares[p]) : -60) : Math.log1p(-shares[p]);
      }
      const sums = { data, dtype: /** @type {const} */ ('float64'), shape: [groups.length, prompts] };
      yield {
        metrics: await crossScoreMetrics(engine, { sums, lengths: groups.map(() => 1), groups }, { permutations: 0 }),
      };
    }
  };
}

/** Prompts × rows of a step, as runs on one GPU have them. */
for (const [prompts, each] of [
  [4, 4],
  [4, 8],
  [6, 4],
  [2, 8],
]) {
  MODELS[`scores-${prompts}x${each}`] = {
    stated: [0.02, 0.05],
    words: `a fixed policy, ${prompts} prompts × ${each} rows a step`,
    draw: drawnPolicy(engine, { prompts: () => prompts, rollouts: each, permutations: 99 }),
  };
  MODELS[`texts-${prompts}x${each}`] = {
    stated: [0.02, 0.05],
    words: `texts of a fixed policy, ${prompts} prompts × ${each} rows a step`,
    draw: markedTexts(engine, { prompts, each }, steps),
  };
}
for (const source of ['scores', 'texts']) {
  MODELS[`short-${source}`] = {
    stated: [0.02, 0.05],
    words: `16 prompts × 4 rows of six tokens, by ${source}`,
    draw: shortRows(engine, { source }, steps),
  };
}

/** By exact scores this policy has an I(X;Z) of 1.7 nats; its texts show a bound of .15. */
MODELS['weak-texts'] = {
  stated: [0.02, 0.05],
  words: '16 prompts × 4 rows of six tokens that tell little of their prompt, by texts',
  draw: shortRows(engine, { source: 'texts', scale: 1.03 }, steps),
};

/** Only that its scores are those of its rows: what else is said of such a policy is so. */
MODELS['nearly-collapsed'] = {
  stated: [0.0001, 0.0001],
  words: 'a policy that has nearly collapsed: scores_mismatched',
  draw: nearlyCollapsed(engine),
  alarms: new Set(['scores_mismatched']),
};

/** log of the binomial coefficient times the powers, summed: P(at most k of n). */
function atMost(k, n, p) {
  if (k >= n) return 1;
  let term = n * Math.log1p(-p);
  let total = Math.exp(term);
  for (let i = 1; i <= k; i++) {
    term += Math.log((n - i + 1) / i) + Math.log(p) - Math.log1p(-p);
    total += Math.exp(term);
  }
  return total;
}

/** Clopper–Pearson, 95%, by bisection. */
function binomialInterval(k, n) {
  const solve = (below) => {
    let [low, high] = [0, 1];
    for (let i = 0; i < 60; i++) {
      const middle = (low + high) / 2;
      if (below(middle)) low = middle;
      else high = middle;
    }
    return low;
  };
  return [
    k === 0 ? 0 : solve((p) => 1 - atMost(k - 1, n, p) < 0.025),
    k === n ? 1 : solve((p) => atMost(k, n, p) > 0.025),
  ];
}

const percent = (share) => `${(100 * share).toFixed(1)}%`;
const names = [...Object.keys(MODELS), ...Object.keys(FALL_MODELS)];
const wanted = only.join() === '' ? names : only;
const unknown = wanted.find((name) => !names.includes(name));
if (unknown !== undefined) wrongUsage(`--only: there is no ${unknown}; there are ${names.join(', ')}`);
const results = [];
const falls = [];
console.log(`${runs} healthy runs of ${steps} computed steps each, seed ${seed}\n`);
console.log('| healthy run | stated | measured | 95% interval | critical | by verdict |\n|---|---|---|---|---|---|');
for (const name of wanted) {
  const { stated: bounds, words, draw, alarms = ALARMS } = MODELS[name] ?? FALL_MODELS[name];
  const stated = bounds?.[steps <= 51 ? 0 : 1];
  /** Runs with one by the 51st step, and by the last. */
  const fallen = { info: [0, 0], warning: [0, 0] };
  const kinds = {};
  let alarmed = 0;
  let grave = 0;
  for (let run = 0; run < runs; run++) {
    const judge = new Judge();
    let step = 0;
    const first = { info: Infinity, warning: Infinity };
    for await (const evidence of draw(uniformNumbers(seed * 1_000_003 + run * 7919))) {
      const { verdicts } = judge.add({ step: ++step, ...evidence });
      const said = verdicts.find(({ kind }) => kind === 'dependence_lower');
      if (said === undefined) continue;
      first.info = Math.min(first.info, step);
      if (said.severity === 'warning') first.warning = Math.min(first.warning, step);
    }
    for (const severity of ['info', 'warning']) {
      if (first[severity] <= 51) fallen[severity][0]++;
      if (first[severity] <= steps) fallen[severity][1]++;
    }
    const found = judge.summary().verdicts.filter(({ kind }) => alarms.has(kind));
    if (found.length > 0) alarmed++;
    if (found.some(({ severity }) => severity === 'critical')) grave++;
    for (const { kind } of found) kinds[kind] = (kinds[kind] ?? 0) + 1;
  }
  for (const [of, severity] of ['info', 'warning'].entries()) {
    const most = (MODELS[name] ? fallsOf(name) : (FALL_MODELS[name].falls ?? FALLS.flat))[of];
    for (const [at, by] of steps > 51 ? [51, steps].entries() : [[1, steps]]) {
      const count = fallen[severity][at];
      const statedHere = most?.[by <= 51 ? 0 : 1] ?? null;
      const [least, greatest] = binomialInterval(count, runs);
      falls.push({
        name,
        words,
        severity,
        by,
        stated: statedHere,
        runs,
        count,
        rate: count / runs,
        low: least,
        high: greatest,
      });
    }
  }
  if (stated === undefined) continue;
  const [low, high] = binomialInterval(alarmed, runs);
  results.push({ name, words, stated, runs, steps, alarmed, grave, rate: alarmed / runs, low, high, kinds });
  const source = Object.entries(kinds).map(([kind, count]) => `${kind} ${count}`);
  console.log(
    `| ${words} | ${percent(stated)} | ${percent(alarmed / runs)} | ${percent(low)} to ${percent(high)} | ${percent(grave / runs)} | ${source.join(', ')} |`,
  );
}
await engine.dispose();
console.log('\n`dependence_lower` at any step, information or graver:\n');
console.log(
  '| healthy run | by step | information: stated | measured | warning: stated | measured |\n|---|---|---|---|---|---|',
);
for (const info of falls.filter(({ severity }) => severity === 'info')) {
  const isSame = ({ name, by, severity }) => name === info.name && by === info.by && severity === 'warning';
  const [warning] = falls.filter(isSame);
  const cells = ({ stated, rate, low, high }) =>
    `${stated === null ? 'is said' : percent(stated)} | ${percent(rate)} (${percent(low)} to ${percent(high)})`;
  console.log(`| ${info.words} | ${info.by} | ${cells(info)} | ${cells(warning)} |`);
}
console.error(
  `wrote ${await storeResult(`false-alarms-${new Date().toISOString().slice(0, 10)}`, { runs, steps, seed, results, falls }, 2)}`,
);
const wrong = results.filter(({ stated, low }) => low > stated);
for (const { name, stated } of wrong) console.error(`${name}: more than the stated ${percent(stated)}`);
const wrongFalls = falls.filter(({ stated, low }) => stated !== null && low > stated);
for (const { name, severity, by, stated } of wrongFalls) {
  console.error(`${name}: dependence_lower (${severity}) by step ${by}: more than the stated ${percent(stated)}`);
}
process.exitCode = wrong.length + wrongFalls.length > 0 ? 1 : 0;

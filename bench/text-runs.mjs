// Healthy runs of which there are texts alone: figures that scatter about their levels, and texts of a policy that never changes,
// through the engine.
import { crossScoreMetrics, textMetrics } from '../dist/index.js';
import { bell } from './random.mjs';

/** Text figures of a step, as far as the judge looks at them. */
function textFigures(values, error, prompts) {
  const half = 2.13 * error;
  return {
    values: { prompts_used: prompts, rows_used: 4 * prompts, ...values },
    absent: {},
    interval: { low: values.mi_bound - half, high: values.mi_bound + half, error },
    pValue: 0.001,
    notes: [],
    rows: { total: 4 * prompts, used: 4 * prompts, empty: 0, repeated: 0 },
    prompts: { used: prompts, known: true },
    byPrompts: false,
    phrases: [],
    logged: {},
  };
}

/**
 * @param {object} figures
 * @param {number} figures.height  of the bound of 16 prompts, nats; what would lie above its ceiling ln 16 stands at it,
 *   where nothing scatters
 * @param {number} figures.spread  standard deviation of a step, as a share of the height: that of the batch, which its
 *   interval knows, and what the policy adds to it
 * @param {number} [figures.memory]  correlation of neighbouring steps
 * @param {(step: number) => number} [figures.level]  where the bound stands at a step, 1 at the start
 * @param {number} steps
 */
export function drawnTexts({ height, spread, memory = 0, level = () => 1 }, steps) {
  const ceiling = Math.log(16);
  return async function* (uniform) {
    const at = Array.from({ length: 6 }, () => bell(uniform));
    for (let step = 1; step <= steps; step++) {
      const fresh = Math.sqrt(1 - memory ** 2);
      for (let one = 0; one < at.length; one++) at[one] = memory * at[one] + fresh * bell(uniform);
      const [mi, specificity, novelty, template, repetition, truncated] = at;
      const bound = height * (level(step) + spread * mi);
      const values = {
        mi_bound: Math.min(ceiling - 0.015, bound),
        // In part of what the bound is of.
        specificity: 1.3 * (level(step) + spread * (0.6 * mi + 0.8 * specificity)),
        sibling_novelty: Math.min(1, Math.max(0, 0.5 + 0.04 * novelty)),
        template_share: Math.max(0, 0.2 + 0.04 * template),
        repetition: Math.max(0, 0.12 + 0.03 * repetition),
        truncated_share: Math.max(0, 0.05 + 0.03 * truncated),
        duplicate_across_share: 0,
      };
      yield { texts: textFigures(values, Math.max(0.04, 0.8 * height * spread), 16) };
    }
  };
}

/**
 * Texts of prompts that are others at every step: a text's words are its prompt's with probability `own`, else common ones, among
 * them phrases that all prompts share.
 * @param {import('../dist/index.js').Engine} engine
 * @param {object} policy
 * @param {number} policy.own
 * @param {number} [policy.words]
 * @param {number} [policy.each]  rows of a prompt
 * @param {(uniform: () => number) => number} [policy.promptsOf]  how many prompts a step has
 * @param {number} steps
 */
export function writtenTexts(engine, { own, words = 12, each = 4, promptsOf = () => 16 }, steps) {
  return async function* (uniform) {
    const below = (most) => Math.floor(uniform() * most);
    for (let step = 1; step <= steps; step++) {
      const prompts = promptsOf(uniform);
      const tokens = [];
      const groups = [];
      const promptTokens = [];
      for (let prompt = 0; prompt < prompts; prompt++) {
        const known = Array.from({ length: 6 }, () => 100 + below(400));
        for (let row = 0; row < each; row++) {
          const said = Array.from({ length: words }, () => (uniform() < own ? known[below(6)] : below(60)));
          if (uniform() < 0.5) said.push(1000, 1001, 1002, 1003);
          tokens.push(said);
          groups.push(prompt);
          promptTokens.push(known);
        }
      }
      yield { texts: await textMetrics(engine, { tokens, groups, promptTokens }, { permutations: 99 }) };
    }
  };
}

/** Small batches: each text begins with a word that is its prompt's, and continues with any of 50. */
export function markedTexts(engine, { prompts, each }, steps) {
  const groups = Array.from({ length: prompts * each }, (_, row) => Math.floor(row / each));
  return async function* (uniform) {
    for (let step = 1; step <= steps; step++) {
      const tokens = groups.map((prompt) => [
        1000 + prompt,
        ...Array.from({ length: 20 }, () => Math.floor(uniform() * 50)),
      ]);
      yield { texts: await textMetrics(engine, { tokens, groups }, { permutations: 99 }) };
    }
  };
}

/**
 * Short rows: six tokens of 12, each drawn from what its place has under the row's prompt. Exact scores and the texts of the same rows,
 * of which one is given.
 * @param source 'scores' or 'texts'
 */
export function shortRows(engine, { source, scale = 1.5, prompts = 16, each = 4 }, steps) {
  const [pool, places, kinds] = [256, 6, 12];
  const groups = Array.from({ length: prompts * each }, (_, row) => Math.floor(row / each));
  return async function* (uniform) {
    const table = Array.from({ length: pool * places }, () => {
      const logits = Array.from({ length: kinds }, () => scale * bell(uniform));
      const norm = Math.log(logits.reduce((sum, logit) => sum + Math.exp(logit), 0));
      return logits.map((logit) => logit - norm);
    });
    for (let step = 1; step <= steps; step++) {
      const chosen = new Set();
      while (chosen.size < prompts) chosen.add(Math.floor(uniform() * pool));
      const columns = [...chosen];
      const logprobs = (prompt, place) => table[columns[prompt] * places + place];
      const tokens = groups.map((prompt) =>
        Array.from({ length: places }, (_, place) => {
          let left = uniform();
          let token = 0;
          const at = logprobs(prompt, place);
          while (token < kinds - 1 && left > Math.exp(at[token])) left -= Math.exp(at[token++]);
          return token;
        }),
      );
      if (source === 'texts') {
        yield { texts: await textMetrics(engine, { tokens, groups }, { permutations: 99 }) };
        continue;
      }
      const sums = Float64Array.from({ length: tokens.length * prompts }, (_, at) =>
        tokens[Math.floor(at / prompts)].reduce((sum, token, place) => sum + logprobs(at % prompts, place)[token], 0),
      );
      const scored = {
        sums: { data: sums, dtype: /** @type {const} */ ('float64'), shape: [tokens.length, prompts] },
        lengths: tokens.map(() => places),
        groups,
      };
      yield { metrics: await crossScoreMetrics(engine, scored, { permutations: 99 }) };
    }
  };
}

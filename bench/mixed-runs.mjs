// Runs whose batches mix environments: policies whose responses tell the environment at every step, and tell prompts of
// one environment apart until it collapses to a template of its own. Rows as crossScoreMetrics and textMetrics take
// them; other prompts at each step.
import { bell } from './random.mjs';

/** Responses that an environment has to itself. */
const KINDS = 32;

/**
 * @param counts prompts of each environment, by its name
 * @param rows of a prompt
 * @param own standard deviation of a prompt's logits: how much the policy depends on it
 * @returns cross-scores of a policy that is known exactly
 */
export function mixedScores(counts, rows, own, uniform) {
  const names = Object.keys(counts);
  const tables = [];
  const ofPrompt = [];
  for (const [at, name] of names.entries()) {
    for (let prompt = 0; prompt < counts[name]; prompt++) {
      const logits = Array.from({ length: names.length * KINDS }, (_, kind) => {
        return (Math.floor(kind / KINDS) === at ? 7 : 0) + own(name) * bell(uniform);
      });
      const norm = Math.log(logits.reduce((sum, logit) => sum + Math.exp(logit), 0));
      tables.push(logits.map((logit) => logit - norm));
      ofPrompt.push(name);
    }
  }
  const groups = ofPrompt.flatMap((_, prompt) => new Array(rows).fill(prompt));
  const data = new Float64Array(groups.length * tables.length);
  groups.forEach((group, row) => {
    const table = tables[group];
    let left = uniform();
    let z = 0;
    while (z < table.length - 1 && left > Math.exp(table[z])) left -= Math.exp(table[z++]);
    for (let column = 0; column < tables.length; column++) data[row * tables.length + column] = tables[column][z];
  });
  return {
    sums: { data, dtype: 'float64', shape: [groups.length, tables.length] },
    lengths: groups.map(() => 8),
    groups,
    environments: groups.map((group) => ofPrompt[group]),
  };
}

/**
 * The same as texts of thirty words: of the prompt with probability `own`, else of the environment's template, whose words come
 * in an order of their own, and common ones.
 */
export function mixedTexts(counts, rows, own, uniform) {
  const below = (most) => Math.floor(uniform() * most);
  const tokens = [];
  const groups = [];
  const promptTokens = [];
  const environments = [];
  let prompt = 0;
  for (const [at, name] of Object.keys(counts).entries()) {
    for (let one = 0; one < counts[name]; one++, prompt++) {
      const known = Array.from({ length: 8 }, () => 10_000 + below(4000));
      for (let row = 0; row < rows; row++) {
        const said = Array.from({ length: 30 }, (_, place) => {
          if (uniform() < own(name)) return known[below(8)];
          return uniform() < 0.6 ? 1000 + at * 40 + place : below(60);
        });
        tokens.push(said);
        groups.push(prompt);
        promptTokens.push(known);
        environments.push(name);
      }
    }
  }
  return { tokens, groups, promptTokens, environments };
}

export const namesOf = (environments) => Array.from({ length: environments }, (_, at) => `env-${at}`);

/** As many prompts of each. */
export const even = (names, prompts) => Object.fromEntries(names.map((name) => [name, prompts]));

/** Prompts that fall on the environments by chance: some of them may have none. */
export function byChance(names, prompts, uniform) {
  const counts = {};
  for (let prompt = 0; prompt < prompts; prompt++) {
    const name = names[Math.floor(uniform() * names.length)];
    counts[name] = (counts[name] ?? 0) + 1;
  }
  return counts;
}

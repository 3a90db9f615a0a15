// Healthy runs of which there are texts alone: figures that scatter about their levels, and texts of a policy that never changes,
// through the engine.
import { textMetrics } from '../dist/index.js';
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
 * @param height of the bound of 16 prompts, nats; what would lie above its ceiling ln 16 stands at it, where nothing scatters
 * @param spread standard deviation of a step, as a share of the height: that of the batch, which its interval knows, and what the policy
 *   adds to it
 * @param memory correlation of neighbouring steps
 * @param level where the bound stands at a step, 1 at the start
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
 * @param promptsOf how many prompts a step has
 */
export function writtenTexts(engine, { own, words = 12, each = 4, promptsOf = () => 16 }, steps) {
  return async function* (uniform) {
    const below = (most) => Math.floor(uniform() * most);
    for (let step = 1; step <= steps; step++) {
      const prompts = promptsOf(uniform);
      const [tokens, groups, promptTokens] = [[], [], []];
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

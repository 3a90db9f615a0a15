// Steps of texts whose dependence on their prompts is known: none at all, or what labels moved at random leave.

const below = (uniform, bound) => Math.floor(uniform() * bound);
const wordsOf = (uniform, length, vocabulary) => Array.from({ length }, () => below(uniform, vocabulary));

/**
 * K rows for each of P prompts, or as many as `sizes` says; `text(uniform)` knows nothing of the prompt.
 * @param {object} kind
 * @param {number} [kind.prompts]
 * @param {number} [kind.each]
 * @param {number[]} [kind.sizes]
 * @param {boolean} [kind.known]  whether the step tells the texts of its prompts
 * @param {(uniform: () => number) => () => number[]} kind.text
 */
function independent({ prompts = 12, each = 4, sizes, known = false, text }) {
  return (uniform) => {
    const counts = sizes ?? Array.from({ length: prompts }, () => each);
    const tokens = [];
    const groups = [];
    const promptTokens = [];
    const draw = text(uniform);
    for (const [group, count] of counts.entries()) {
      const prompt = wordsOf(uniform, 15, 60);
      for (let row = 0; row < count; row++) {
        tokens.push(draw());
        groups.push(group);
        promptTokens.push(prompt);
      }
    }
    return { tokens, groups, ...(known && { promptTokens }) };
  };
}

const plain = (uniform) => () => wordsOf(uniform, 5 + below(uniform, 40), 60);

/** One of `size` texts, drawn for each step. */
const pool = (size) => (uniform) => {
  const texts = Array.from({ length: size }, () => wordsOf(uniform, 5 + below(uniform, 30), 60));
  return () => texts[below(uniform, size)];
};

/** With a probability a template, alone or with an ending of its own. */
const template = (probability) => (uniform) => {
  const start = wordsOf(uniform, 12, 60);
  return () => {
    if (uniform() >= probability) return wordsOf(uniform, 5 + below(uniform, 30), 60);
    return uniform() < 0.5 ? start : [...start, ...wordsOf(uniform, 1 + below(uniform, 10), 60)];
  };
};

/** 1 to 1,000 tokens, as often below as above 32. */
const anyLength = (uniform) => () => wordsOf(uniform, Math.round(1000 ** uniform()), 200);

/** By kind, what makes a step from uniform numbers; texts and labels are independent in all of them. */
export const independentSteps = {
  'K 1, prompts known': independent({ each: 1, prompts: 24, known: true, text: plain }),
  'K 2': independent({ each: 2, text: plain }),
  'K 2, prompts known': independent({ each: 2, known: true, text: plain }),
  'K 4': independent({ text: plain }),
  'K 4, prompts known': independent({ known: true, text: plain }),
  'K 8': independent({ each: 8, text: plain }),
  'K 8, prompts known': independent({ each: 8, known: true, text: plain }),
  'copies of 4 texts': independent({ text: pool(4) }),
  'copies of 16 texts': independent({ text: pool(16) }),
  'copies of 16 texts, prompts known': independent({ known: true, text: pool(16) }),
  'template 0.5': independent({ text: template(0.5) }),
  'template 0.75': independent({ text: template(0.75) }),
  'template 0.9': independent({ text: template(0.9) }),
  'groups of 50 and 2': independent({ sizes: [50, 50, 2, 2, 2, 2, 2, 2], text: plain }),
  'groups of 50 and 2, prompts known': independent({ sizes: [50, 50, 2, 2, 2, 2, 2, 2], known: true, text: plain }),
  'lengths 1 to 1,000': independent({ text: anyLength }),
};

/**
 * Each prompt has words of its own, so that its texts differ from others'. A share `moved` of the rows is written
 * for a prompt drawn at random instead of theirs.
 */
export function dependentStep(uniform, { prompts, each, moved }) {
  const own = Array.from(
    { length: prompts },
    (_, j) => (length) => wordsOf(uniform, length, 40).map((word) => 40 * j + word),
  );
  const tokens = [];
  const groups = [];
  for (let group = 0; group < prompts; group++) {
    for (let row = 0; row < each; row++) {
      const writer = uniform() < moved ? below(uniform, prompts) : group;
      tokens.push(own[writer](10 + below(uniform, 30)));
      groups.push(group);
    }
  }
  return { tokens, groups };
}

/** I(X;Z) of dependentStep in nats: of the prompt that a row is labelled with and the one that it was written for. */
export function dependence({ prompts, moved }) {
  const same = 1 - moved + moved / prompts;
  const other = moved / prompts;
  const term = (probability) => (probability === 0 ? 0 : probability * Math.log(probability * prompts));
  return term(same) + (prompts - 1) * term(other);
}

/**
 * How far values in (0, 1] stray from the uniform distribution on the multiples of 1 / (permutations + 1): Kolmogorov's
 * distance, and its p-value (an upper one, the distribution being discrete).
 */
export function uniformity(values, permutations) {
  const sorted = Float64Array.from(values).sort();
  let distance = 0;
  for (let at = 0; at < sorted.length; at++) {
    if (at + 1 < sorted.length && sorted[at + 1] === sorted[at]) continue;
    const below = (at + 1) / sorted.length;
    const next = at + 1 < sorted.length ? sorted[at + 1] : 1 + 1 / (permutations + 1);
    // The share at or below a value, against that value; and just before the next one.
    distance = Math.max(distance, Math.abs(below - sorted[at]), Math.abs(below - (next - 1 / (permutations + 1))));
  }
  const root = Math.sqrt(sorted.length);
  const scaled = (root + 0.12 + 0.11 / root) * distance;
  let tail = 0;
  for (let k = 1; k <= 100; k++) tail += 2 * (-1) ** (k - 1) * Math.exp(-2 * k * k * scaled * scaled);
  return { distance, pValue: scaled < 0.2 ? 1 : Math.min(1, Math.max(0, tail)) };
}

// Compares specific with correct: four shares of rows by retrieval to their own prompt and success, and whether
// reasoning that fits its prompt pays off (docs/reference/verdicts.md).

import { figure, percent } from '../../checks/numbers.js';
import { fields, list, number, type Shaped } from '../../checks/saved.js';
import type { Finding } from '../verdict.js';

/** Shares of a step's rows; they add up to 1. */
export interface Specificity {
  readonly rows: number;
  readonly specificRight: number;
  readonly specificWrong: number;
  readonly genericRight: number;
  readonly genericWrong: number;
}

/** Products of two of the four counts, each with each. */
const PRODUCTS = 16;

/** The four counts over the latest steps: each step halves what is older than HALF_LIFE computed steps. */
export const specificityShape = fields({
  specificRight: number,
  specificWrong: number,
  genericRight: number,
  genericWrong: number,
  /**
   * Sums over prompts (of each step by itself) of the products of their counts, row by row of the matrix: rows of one
   * prompt are retrieved, and succeed, together. Decays as a square does.
   */
  products: list(number, PRODUCTS),
});
export type SpecificityCounts = Shaped<typeof specificityShape>;

const HALF_LIFE = 5;
const KEEP = 0.5 ** (1 / HALF_LIFE);

/**
 * Standard errors below zero at which the difference is believed: every step tests it again, so more than the usual
 * two.
 */
const BELIEVED = 3.29;

/**
 * @param retrieved 1 if the row's best prompt is its own
 * @param isRight whether the row at this place succeeded
 * @param promptOf the prompt of the row at this place
 */
export function countSpecificity(
  retrieved: ArrayLike<number>,
  isRight: (at: number) => boolean,
  promptOf: (at: number) => number | bigint,
): SpecificityCounts {
  const byPrompt = new Map<number | bigint, [number, number, number, number]>();
  for (let at = 0; at < retrieved.length; at++) {
    const prompt = promptOf(at);
    const counts = byPrompt.get(prompt) ?? [0, 0, 0, 0];
    byPrompt.set(prompt, counts);
    const kind = (retrieved[at] ? 0 : 2) + (isRight(at) ? 0 : 1);
    counts[kind] = (counts[kind] as number) + 1;
  }
  const total: [number, number, number, number] = [0, 0, 0, 0];
  const products = new Array<number>(PRODUCTS).fill(0);
  for (const counts of byPrompt.values()) {
    counts.forEach((count, i) => {
      total[i] = (total[i] as number) + count;
      counts.forEach((other, j) => {
        products[4 * i + j] = (products[4 * i + j] as number) + count * other;
      });
    });
  }
  const [specificRight, specificWrong, genericRight, genericWrong] = total;
  return { specificRight, specificWrong, genericRight, genericWrong, products };
}

function rowsOf({ specificRight, specificWrong, genericRight, genericWrong }: SpecificityCounts): number {
  return specificRight + specificWrong + genericRight + genericWrong;
}

export function specificityShares(counts: SpecificityCounts): Specificity | null {
  const rows = rowsOf(counts);
  if (rows === 0) return null;
  return {
    rows,
    specificRight: counts.specificRight / rows,
    specificWrong: counts.specificWrong / rows,
    genericRight: counts.genericRight / rows,
    genericWrong: counts.genericWrong / rows,
  };
}

export function decayed(old: SpecificityCounts, now: SpecificityCounts): SpecificityCounts {
  return {
    specificRight: KEEP * old.specificRight + now.specificRight,
    specificWrong: KEEP * old.specificWrong + now.specificWrong,
    genericRight: KEEP * old.genericRight + now.genericRight,
    genericWrong: KEEP * old.genericWrong + now.genericWrong,
    products: now.products.map((product, at) => KEEP ** 2 * (old.products[at] ?? 0) + product),
  };
}

/**
 * Standard error of the difference of two rates where rows of one prompt go together: each prompt pulls the difference
 * by so much (linearised), and prompts are independent.
 */
function errorByPrompts(
  { products }: SpecificityCounts,
  rate: number,
  specific: number,
  other: number,
  generic: number,
) {
  const pull = [(1 - rate) / specific, -rate / specific, -(1 - other) / generic, other / generic];
  let variance = 0;
  pull.forEach((a, i) => {
    pull.forEach((b, j) => {
      variance += a * b * (products[4 * i + j] ?? 0);
    });
  });
  return Math.sqrt(Math.max(0, variance));
}

/** @param counts over the latest steps */
export function specificityFinding(step: number, counts: SpecificityCounts): Finding | undefined {
  const specific = counts.specificRight + counts.specificWrong;
  const generic = counts.genericRight + counts.genericWrong;
  if (specific < 5 || generic < 5) return undefined;
  const [rate, otherRate] = [counts.specificRight / specific, counts.genericRight / generic];
  // Agresti and Caffo (2000): one success and one failure added to each keep the error above zero.
  const adjusted = (right: number, all: number) => ({ p: (right + 1) / (all + 2), n: all + 2 });
  const [a, b] = [adjusted(counts.specificRight, specific), adjusted(counts.genericRight, generic)];
  const ofRows = Math.sqrt((a.p * (1 - a.p)) / a.n + (b.p * (1 - b.p)) / b.n);
  const error = Math.max(ofRows, errorByPrompts(counts, rate, specific, otherRate, generic));
  if (a.p - b.p + BELIEVED * error >= 0) return undefined;
  return {
    kind: 'specific_but_wrong',
    severity: 'info',
    since: step,
    evidence: {
      successSpecific: rate,
      successGeneric: otherRate,
      difference: rate - otherRate,
      error,
      rows: specific + generic,
    },
    advice:
      'Dependence on the prompt is there but does not serve the task: read some specific rows that failed, and look at what ' +
      'the reward pays for.',
    now: `the rates are ${percent(rate)} and ${percent(otherRate)}`,
    sentence:
      `Reasoning that fits its prompt succeeds less often (${percent(rate)}) than reasoning that does not ` +
      `(${percent(otherRate)}); the difference is ${figure((rate - otherRate) / error)} standard errors.`,
  };
}

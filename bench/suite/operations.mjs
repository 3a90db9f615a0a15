// Makes the timed call of the public API for a case and its input, and plain numbers of its results for checks.
import { crossScoreMetrics } from '../../dist/index.js';

/** Whether the engine has the operation (logitStats came later than the others). */
export function isThere(engine, operation) {
  return operation === 'step' || typeof engine[operation] === 'function';
}

/**
 * @param {import('./cases.mjs').Case} given
 * @param {import('./data.mjs').Input} input
 * @returns {(engine: import('../../dist/index.js').Engine) => Promise<object>}
 */
export function callOf(given, input) {
  const { tensor, lengths, own, targets } = input;
  if (given.operation === 'logitStats') {
    const options = given.out === undefined ? { targets } : { out: given.out };
    return (engine) => engine.logitStats(tensor, options);
  }
  if (given.operation === 'sumTokens') {
    const options = input.out === undefined ? {} : { out: input.out };
    return (engine) => engine.sumTokens(tensor, lengths, options);
  }
  if (given.operation === 'scoreStats') return (engine) => engine.scoreStats(tensor, { own, lengths });
  return (engine) => crossScoreMetrics(engine, { logprobs: tensor, lengths, groups: own }, { profile: 'ragen' });
}

const numbers = (array) => Float64Array.from(array, Number);
const logitFields = ['logsumexp', 'entropy', 'targetLogprob', 'argmax', 'rankAbove', 'rankEqual'];
const rowFields = ['matchedSeq', 'marginalSeq', 'marginalToken', 'posteriorEntropy', 'argmax', 'rankAbove', 'hitRank'];

/**
 * What peers are checked against: arrays by name. The names are those that peers give.
 * @returns {Record<string, Float64Array>}
 */
export function namedResults(given, result) {
  if (given.operation === 'sumTokens') return { sums: numbers(result.sums.data) };
  if (given.operation === 'step') {
    return Object.fromEntries(Object.entries(result.values).map(([key, value]) => [key, Float64Array.of(value)]));
  }
  const fields = given.operation === 'logitStats' ? (given.out ?? logitFields) : rowFields;
  return Object.fromEntries(fields.filter((name) => result[name]).map((name) => [name, numbers(result[name])]));
}

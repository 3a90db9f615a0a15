// What is measured: every operation in several dtypes and shapes, sized to a budget of bytes.
import { readFileSync } from 'node:fs';

/**
 * @typedef {'logitStats' | 'sumTokens' | 'scoreStats' | 'step'} Operation  `step`: crossScoreMetrics, profile `ragen`
 * @typedef {'float64' | 'float32' | 'float16' | 'bfloat16'} DType
 * @typedef {object} Case
 * @property {string} id          the same for the same work: what two result files are matched by
 * @property {Operation} operation
 * @property {DType} dtype
 * @property {number[]} shape     [N, V], [P, R, T] or [R, P]
 * @property {import('../../dist/engine/operations/logit-fields.js').LogitField[]} [out]     the outputs of logitStats that are asked for; default all
 * @property {boolean} [packed]   sumTokens: [P, N] without padding
 * @property {boolean} [reuse]    sumTokens: into memory that the caller keeps, instead of new memory in each call
 * @property {boolean} [anyTargets]  logitStats: each column is as likely to be a target; default: as likely as it is
 *   sampled
 * @property {boolean} [isas]     also on every instruction set that the machine has, with one thread
 * @property {boolean} [peers]    also in the run with peers
 * @property {string} [smallerThan]  the id of the case that this has fewer rows of
 */

export const vocabularies = { qwen: 151_936, llama: 128_256 };
export const elementBytes = { float64: 8, float32: 4, float16: 2, bfloat16: 2 };

/** The last-level cache of the first processor, in bytes; 0 where the system does not say. */
export function lastLevelCache() {
  for (const level of [4, 3, 2]) {
    try {
      const text = readFileSync(`/sys/devices/system/cpu/cpu0/cache/index${level}/size`, 'utf8');
      return Number.parseInt(text, 10) * (text.trim().endsWith('M') ? 2 ** 20 : 2 ** 10);
    } catch {
      // No such level, or not Linux.
    }
  }
  return 0;
}

/** How many rows of this size fit the budget: at least one, and a number that is not round. */
const rowsWithin = (budget, rowBytes) => Math.max(1, Math.floor(budget / rowBytes));

/**
 * What tells a case from the others.
 * @param {Omit<Case, 'id'>} given
 */
function idOf({ operation, dtype, shape, out, packed, reuse, anyTargets }) {
  const notes = [
    packed ? 'packed' : '',
    reuse ? 'into out' : '',
    out ? `only ${out.join(', ')}` : '',
    anyTargets ? 'any targets' : '',
  ].filter(Boolean);
  return [operation, dtype, `[${shape.join(', ')}]`, ...notes].join(' ');
}

/**
 * The same work on a part of the rows, for peers that are too slow or too large for the whole.
 * @param {Case} given
 * @param {number} parts  how many times fewer rows; at least one is left, in a step one for each prompt
 * @returns {Case}
 */
export function smallerCase(given, parts) {
  const axis = given.shape.length === 3 ? 1 : 0;
  const least = given.operation === 'step' ? given.shape[0] : 1;
  const rows = Math.min(given.shape[axis], Math.max(least, Math.floor(given.shape[axis] / parts)));
  if (rows === given.shape[axis]) return given;
  const shape = given.shape.with(axis, rows);
  return { ...given, shape, id: idOf({ ...given, shape }), smallerThan: given.id };
}

/**
 * @param {{ peers: boolean, budget: number }} options  budget: bytes of the largest input
 * @returns {Case[]}
 */
export function listCases({ peers, budget }) {
  /** @type {Case[]} */
  const cases = [];
  const add = (operation, dtype, shape, more = {}) => {
    const id = idOf({ operation, dtype, shape, ...more });
    if (!cases.some((other) => other.id === id)) cases.push({ id, operation, dtype, shape, ...more });
  };
  const logits = (dtype, vocabulary, more = {}) => {
    const rows = Math.min(rowsWithin(budget, vocabulary * elementBytes[dtype]), more.rows ?? 8192);
    add('logitStats', dtype, [rows, vocabulary], more);
  };
  const { qwen, llama } = vocabularies;
  logits('float32', qwen, { isas: true, peers: true });
  logits('float32', qwen, { anyTargets: true });
  logits('float32', llama, { peers: true });
  logits('bfloat16', qwen, { isas: true, peers: true });
  logits('bfloat16', qwen, { anyTargets: true });
  logits('bfloat16', llama);
  logits('float16', qwen);
  logits('float64', qwen);
  logits('float32', qwen, { rows: 1 });
  logits('float32', qwen, { rows: 8 });
  logits('float32', 4096, { rows: 65_536 });
  logits('float32', qwen, { out: ['logsumexp'], peers: true });
  logits('float32', qwen, { out: ['argmax'], peers: true });

  // [P, R, T] of which half is valid.
  const tokens = (dtype, prompts, length, more = {}) => {
    const rows = rowsWithin(budget, prompts * length * elementBytes[dtype]);
    add('sumTokens', dtype, [prompts, Math.min(rows, 65_536), length], more);
  };
  tokens('float32', 64, 16, { peers: true });
  tokens('float32', 64, 16, { reuse: true });
  tokens('float32', 64, 64);
  tokens('float32', 64, 64, { reuse: true });
  tokens('float32', 64, 512, { isas: true, peers: true });
  tokens('float32', 8, 4096, { peers: true });
  tokens('float32', 1024, 512);
  tokens('bfloat16', 64, 512);
  tokens('float16', 64, 512);
  tokens('float64', 64, 512);
  tokens('float32', 64, 512, { packed: true });

  // Scores [R, P]; the outputs of a short row are larger than the row, hence fewer.
  const scores = (dtype, prompts, more = {}) => {
    const rows = rowsWithin(budget / 4, prompts * elementBytes[dtype]);
    add('scoreStats', dtype, [Math.min(rows, more.rows ?? 262_144), prompts], more);
  };
  scores('float32', 8);
  scores('float32', 16, { peers: true });
  scores('float32', 64, { peers: true });
  scores('float32', 256);
  scores('float32', 1024, { isas: true, peers: true });
  scores('float32', 8192);
  scores('float32', 8192, { rows: 4 });
  scores('float64', 64);
  scores('float64', 1024, { peers: true });
  scores('float64', 8192);
  scores('bfloat16', 1024);

  // A whole step as a trainer hands it over.
  add('step', 'float32', [64, rowsWithin(budget, 64 * 512 * 4), 512], { peers: true });
  return peers ? cases.filter((one) => one.peers) : cases;
}

/**
 * The cases that a command line asks for; throws with what to do if it asks for none, or for a part of a table.
 * @param {{ peers: boolean, only: string, docs: boolean, budget: number }} options
 * @returns {Case[]}
 */
export function chosenCases(options) {
  const { only, docs } = options;
  if (docs && only !== '')
    throw new Error('--docs writes the whole table and --only measures a part: leave one of them out');
  const cases = listCases(options);
  const chosen = cases.filter(({ id }) => id.includes(only));
  if (chosen.length > 0) return chosen;
  throw new Error(`no case contains '${only}'; cases:\n${cases.map(({ id }) => `  ${id}`).join('\n')}`);
}

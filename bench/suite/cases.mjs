// What is measured: every operation in several dtypes and shapes, sized to a budget of bytes.
import { readFileSync } from 'node:fs';
import { totalmem } from 'node:os';

/**
 * @typedef {'logitStats' | 'sumTokens' | 'scoreStats' | 'step'} Operation  `step`: crossScoreMetrics, profile `ragen`
 * @typedef {'float64' | 'float32' | 'float16' | 'bfloat16'} DType
 * @typedef {object} Case
 * @property {string} id          the same for the same work: what two result files are matched by
 * @property {Operation} operation
 * @property {DType} dtype
 * @property {number[]} shape     [N, V], [P, R, T] or [R, P]
 * @property {string[]} [out]     the outputs of logitStats that are asked for; default all
 * @property {boolean} [packed]   sumTokens: [P, N] without padding
 * @property {boolean} [reuse]    sumTokens: into memory that the caller keeps, instead of new memory in each call
 * @property {boolean} [anyTargets]  logitStats: each column is as likely to be a target; default: as likely as it is sampled
 * @property {boolean} [isas]     also on every instruction set that the machine has, with one thread
 * @property {boolean} [peers]    also in the run with peers
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

/**
 * Bytes of the largest inputs: enough that no cache holds them, at most a sixteenth of the memory (peers make
 * temporaries of several times their input). From the machine alone, so that two runs measure the same work.
 * @param {{ quick: boolean, peers: boolean }} options
 */
export function inputBudget({ quick, peers }) {
  const wanted = (quick ? 64 : peers ? 256 : 512) * 2 ** 20;
  return Math.min(Math.max(wanted, (quick ? 2 : 4) * lastLevelCache()), Math.floor(totalmem() / 16));
}

/** Rows of so many bytes that fit the budget: at least one, and a number that is not round. */
const rowsWithin = (budget, rowBytes) => Math.max(1, Math.floor(budget / rowBytes));

/**
 * @param {{ quick: boolean, peers: boolean, budget?: number }} options
 * @returns {Case[]}
 */
export function listCases({ quick, peers, budget = inputBudget({ quick, peers }) }) {
  /** @type {Case[]} */
  const cases = [];
  const add = (operation, dtype, shape, more = {}) => {
    const { out, packed, reuse, anyTargets } = more;
    const notes = [
      packed ? 'packed' : '',
      reuse ? 'into out' : '',
      out ? `only ${out.join(', ')}` : '',
      anyTargets ? 'any targets' : '',
    ].filter(Boolean);
    const id = [operation, dtype, `[${shape.join(', ')}]`, ...notes].join(' ');
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
 * @param {{ quick: boolean, peers: boolean, only: string, docs: boolean, budget?: number }} options
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

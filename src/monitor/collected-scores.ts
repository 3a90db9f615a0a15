// Sums the scores of one step over tokens to [R, P] as they come, in any parts and order. Keeps only the sums of whole
// rows, so that a step holds R·P numbers and never the log-probs of two prompts.

import { types } from 'node:util';
import { checkAwaited } from '../checks/argument-checks.js';
import { ArgumentError } from '../checks/errors.js';
import { shown } from '../checks/words.js';
import type { Engine } from '../engine/engine.js';
import type { HeldTokens, MissingTokens } from '../engine/native.js';
import type { HostTensor, Tensor } from '../engine/tensor/tensor.js';
import { checkTensor } from '../engine/tensor/tensor-view.js';
import type { TokenBox } from '../engine/tokens/token-block.js';
import { type BlockSession, TokenSumsSink } from '../engine/tokens/token-sums-sink.js';
import type { Lengths } from '../metrics/metric-arguments.js';
import { groupOfPrompt, type OpenLabels } from './outcomes/step-labels.js';
import type { WantedPairs } from './wanted-scores.js';

/**
 * The scores of one prompt, in nats. Rows are either all R rows of the step, or just those that the step wants scored
 * under this prompt (`step.pairs().byPrompt`), in rising order.
 * - a Tensor [rows, T]: log-probs of each row's tokens; past a row's length the content is ignored;
 * - a Tensor [N]: the same packed, row after row without padding;
 * - a Float64Array, a Float32Array or an array of numbers [rows]: sums over tokens.
 */
export type ColumnScores = Tensor | Float64Array | Float32Array | readonly number[];

/** The scores of all prompts, in nats: exactly one of `logprobs` [P, R, T] or packed [P, N], and `sums` [R, P]. */
export interface WholeScores {
  readonly logprobs?: Tensor | undefined;
  readonly sums?: Tensor | undefined;
}

/**
 * The scores of some prompts × some rows × some tokens, in nats; what is not named is all of its axis. Exactly one of
 * `logprobs` [p, r, t] (whole rows also packed [p, N]) and `sums` [r, p] of whole rows.
 */
export interface ScoreBlock extends TokenBox, WholeScores {}

export class CollectedScores {
  readonly #labels: OpenLabels;
  readonly #lengths: Float64Array;
  readonly #wanted: ReadonlyMap<number, Int32Array>;
  readonly #sink: TokenSumsSink;

  /** @param engine asked for when the first scores come */
  constructor(labels: OpenLabels, wanted: WantedPairs, engine: () => Promise<Engine>) {
    this.#labels = labels;
    this.#lengths = Float64Array.from<number | bigint>(labels.lengths as Lengths, Number);
    this.#wanted = new Map(wanted.byPrompt.map(({ prompt, rows }) => [prompt, rows]));
    const { prompts, rows } = labels;
    this.#sink = new TokenSumsSink(engine, { prompts, rows, lengths: this.#lengths, pairs: wanted.byPrompt });
  }

  get held(): HeldTokens {
    return this.#sink.held;
  }

  /** @throws {ArgumentError} for an unknown prompt, one that was scored before, or scores that do not fit it */
  async add(prompt: number, scores: ColumnScores, signal?: AbortSignal): Promise<void> {
    const { prompts } = this.#labels;
    if (!Number.isSafeInteger(prompt) || prompt < 0 || prompt >= prompts) {
      throw new ArgumentError('prompt', `got ${shown(prompt)}, expected an index of a column, 0 to ${prompts - 1}`);
    }
    const box: TokenBox = { prompts: [prompt] };
    this.#refuseGiven(box);
    const sums = sumsOf(scores);
    if (sums === undefined) {
      const rows = this.#rowsOfTensor(prompt, scores as Tensor);
      await this.#sink.add({ ...box, rows, logprobs: asOnePrompt(scores as Tensor) }, { signal });
    } else {
      const rows = this.#rowsByCount(prompt, sums.length, 'sums');
      const column: Tensor = { data: sums, dtype: 'float64', shape: [sums.length, 1] };
      await this.#sink.addSums({ ...box, rows, sums: column }, { signal });
    }
  }

  /** @throws {ArgumentError} if some prompt was scored before, or the scores do not fit the step */
  async addAll(scores: WholeScores, signal?: AbortSignal): Promise<void> {
    const { logprobs, sums } = oneOf(scores, 'scores', '([P, R, T] or packed [P, N])', '([R, P])');
    this.#refuseGiven({});
    const { rows, prompts } = this.#labels;
    if (sums !== undefined) expectShape('scores.sums', sums, [rows, prompts], '[R, P]');
    else if (logprobs?.shape?.length === 2) expectShape('scores.logprobs', logprobs, [prompts], 'packed [P, N]');
    else expectShape('scores.logprobs', logprobs as Tensor, [prompts, rows], '[P, R, T]');
    if (sums !== undefined) await this.#sink.addSums({ sums }, { signal });
    else await this.#sink.add({ logprobs: logprobs as Tensor }, { signal });
  }

  /** @throws {ArgumentError} if some of its tokens came before, or it does not fit the step */
  async addBlock(
    block: ScoreBlock,
    signal?: AbortSignal,
    to: Pick<BlockSession, 'add' | 'addSums'> = this.#sink,
  ): Promise<void> {
    const { logprobs, sums } = oneOf(block, 'block', '([p, r, t] or packed [p, N])', '([r, p])');
    const { prompts, rows, tokens } = block;
    if (logprobs !== undefined) {
      await to.add({ prompts, rows, tokens, logprobs }, { signal });
      return;
    }
    if (tokens !== undefined) {
      throw new ArgumentError('tokens', 'sums are of whole rows: leave out `tokens`, or give `logprobs`');
    }
    await to.addSums({ prompts, rows, sums: sums as Tensor }, { signal });
  }

  /** Starts a set of blocks that can be undone together; addBlock() accepts it as the target. */
  session(): BlockSession {
    return this.#sink.session();
  }

  /** Stops what runs and releases everything; later calls reject with the reason. */
  abort(reason: unknown): void {
    this.#sink.abort(reason);
  }

  /**
   * The sums [R, P], once all that was begun is there. Cells that no metric reads are NaN, or 0 in rows without tokens.
   * @throws {ArgumentError} naming the prompts that were never scored, or not to the end
   */
  async all(): Promise<HostTensor> {
    await this.#sink.settled();
    const missing = this.#sink.missing();
    if (missing.length > 0) throw new ArgumentError('scores', this.#missingSentence(missing));
    return (await this.#sink.finish()).sums;
  }

  #missingSentence(missing: readonly MissingTokens[]): string {
    const never = missing.filter(({ untouched }) => untouched);
    const some = missing.filter(({ untouched }) => !untouched);
    const list = (of: readonly MissingTokens[], name: (each: MissingTokens) => string): string =>
      of.slice(0, 8).map(name).join(', ') + (of.length > 8 ? ', …' : '');
    const group = ({ prompt }: MissingTokens): string => `${prompt} (group ${groupOfPrompt(this.#labels, prompt)})`;
    const sentences: string[] = [];
    if (never.length > 0) {
      sentences.push(`${never.length} of ${this.#wanted.size} prompts were never scored: ${list(never, group)}`);
    }
    if (some.length > 0) {
      const rest = list(
        some,
        (each) => `${group(each)} lacks ${each.rows} rows (row ${each.row}: tokens ${each.from} to ${each.to - 1})`,
      );
      sentences.push(`${some.length} of ${this.#wanted.size} prompts were scored in part: ${rest}`);
    }
    return `${sentences.join('; ')}; call step.score() for each of step.pairs().byPrompt, then step.finish() again`;
  }

  /** A prompt that has begun is not taken as a whole. */
  #refuseGiven(box: TokenBox): void {
    const given = this.#sink.firstGiven(box);
    if (given === undefined) return;
    const { prompt, row, token } = given;
    throw new ArgumentError(
      'prompt',
      `prompt ${prompt} was scored before (row ${row}, token ${token}): score each prompt of a step once`,
    );
  }

  /** Which rows a column's scores are of, by how many there are; undefined: all. */
  #rowsByCount(prompt: number, count: number, argument: string): Int32Array | undefined {
    const { rows } = this.#labels;
    const wanted = this.#wantedUnder(prompt);
    if (count === rows) return undefined;
    if (count === wanted.length) return wanted;
    const few = wanted.length < rows ? `, or the ${wanted.length} that are wanted under prompt ${prompt}` : '';
    throw new ArgumentError(argument, `got ${count} rows, expected all ${rows} rows of the step${few}`);
  }

  /** The same for log-probs; packed ones show it by their number of tokens. */
  #rowsOfTensor(prompt: number, { shape }: Tensor): Int32Array | undefined {
    const [first, second] = shape as [number, number?];
    if (second !== undefined) return this.#rowsByCount(prompt, first, 'logprobs');
    const tokens = (rows: Iterable<number>): number => {
      let total = 0;
      for (const row of rows) total += this.#lengths[row] as number;
      return total;
    };
    const wanted = this.#wantedUnder(prompt);
    const ofAll = tokens(this.#lengths.keys());
    if (first === ofAll) return undefined;
    if (first === tokens(wanted)) return wanted;
    throw new ArgumentError(
      'logprobs',
      `got ${first} packed tokens, expected ${ofAll} of all rows, or ${tokens(wanted)} of those wanted under prompt ${prompt}`,
    );
  }

  #wantedUnder(prompt: number): Int32Array {
    return this.#wanted.get(prompt) ?? new Int32Array(0);
  }
}

/** Sums over tokens, copied; undefined if the scores are log-probs of tokens. */
function sumsOf(scores: ColumnScores): Float64Array | undefined {
  if (types.isFloat64Array(scores) || types.isFloat32Array(scores)) return Float64Array.from(scores);
  if (Array.isArray(scores)) {
    const stranger = scores.findIndex((value) => typeof value !== 'number');
    if (stranger >= 0) {
      const problem = `entry ${stranger} is ${shown(scores[stranger])}, expected a number, one a row`;
      const advice = 'token log-probs go into a tensor { data, dtype, shape: [rows, T] }';
      throw new ArgumentError('sums', `${problem}; ${advice}`);
    }
    return Float64Array.from(scores as readonly number[]);
  }
  checkAwaited(scores, 'scores');
  const { shape } = (scores ?? {}) as Partial<Tensor>;
  if (!Array.isArray(shape)) {
    throw new ArgumentError(
      'scores',
      `got ${shown(scores)}, expected a Tensor [rows, T] or packed [N], or an array of sums`,
    );
  }
  if (shape.length !== 1 && shape.length !== 2) {
    throw new ArgumentError('logprobs.shape', `got [${shape.join(', ')}], expected [rows, T] or packed [N]`);
  }
  return undefined;
}

/** One column's log-probs as the engine takes them: padded [1, rows, T] or packed [1, N]. */
function asOnePrompt({ data, dtype, shape, strides }: Tensor): Tensor {
  // The stride of an axis with one entry is never taken.
  return { data, dtype, shape: [1, ...shape], ...(strides && { strides: [0, ...strides] }) };
}

/** @throws {ArgumentError} unless exactly one of the two is there */
function oneOf(scores: WholeScores, argument: string, ofLogprobs: string, ofSums: string): WholeScores {
  checkAwaited(scores, argument);
  const { logprobs, sums } = scores ?? {};
  if ((logprobs === undefined) === (sums === undefined)) {
    throw new ArgumentError(argument, `give exactly one of \`logprobs\` ${ofLogprobs} and \`sums\` ${ofSums}`);
  }
  return { logprobs, sums };
}

function expectShape(argument: string, tensor: Tensor, expected: readonly number[], meaning: string): void {
  checkTensor(tensor, argument);
  const { shape } = tensor;
  const fits = Array.isArray(shape) && expected.every((extent, axis) => shape[axis] === extent);
  const axes = meaning.split(',').length;
  if (fits && shape.length === axes) return;
  const got = Array.isArray(shape) ? `[${shape.join(', ')}]` : shown(tensor);
  throw new ArgumentError(argument, `got ${got}, expected ${meaning} with ${expected.join(' and ')} first`);
}

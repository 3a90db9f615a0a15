// Scores of one step as they come, a prompt at a time and in any order -> sums over tokens [R, P]. Of each column only its
// sums stay, so that a step holds R·P numbers and never the log-probs of two prompts.
import { types } from 'node:util';
import type { Engine } from '../engine/engine.js';
import type { Integers, Tensor } from '../engine/tensor.js';
import { shown } from '../engine/tensor-view.js';
import { ArgumentError } from '../errors.js';
import { groupOfPrompt, type OpenLabels } from './step-labels.js';
import type { WantedPairs } from './wanted-scores.js';

/**
 * The scores of one prompt, in nats. Rows are either all R rows of the step, or just those that the step wants scored under
 * this prompt (`step.pairs().byPrompt`), in rising order.
 * - a Tensor [rows, T]: log-probs of each row's tokens; past a row's length anything may stand;
 * - a Tensor [N]: the same packed, row after row without padding;
 * - a Float64Array, a Float32Array or an array of numbers [rows]: sums over tokens.
 */
export type ColumnScores = Tensor | Float64Array | Float32Array | readonly number[];

/** The scores of all prompts, in nats: exactly one of `logprobs` [P, R, T] or packed [P, N], and `sums` [R, P]. */
export interface WholeScores {
  readonly logprobs?: Tensor | undefined;
  readonly sums?: Tensor | undefined;
}

export class CollectedScores {
  readonly #labels: OpenLabels;
  readonly #lengths: Integers;
  readonly #wanted: ReadonlyMap<number, Int32Array>;
  /** Prompts that are scored or being scored. */
  readonly #taken = new Set<number>();
  readonly #running = new Set<Promise<unknown>>();
  #sums: Tensor | undefined;

  constructor(labels: OpenLabels, wanted: WantedPairs) {
    this.#labels = labels;
    this.#lengths = labels.lengths as Integers;
    this.#wanted = new Map(wanted.byPrompt.map(({ prompt, rows }) => [prompt, rows]));
  }

  /** @throws {ArgumentError} for an unknown prompt, one that was scored before, or scores that do not fit it */
  add(prompt: number, scores: ColumnScores, engine: () => Promise<Engine>, signal?: AbortSignal): Promise<void> {
    const { prompts } = this.#labels;
    if (!Number.isSafeInteger(prompt) || prompt < 0 || prompt >= prompts) {
      throw new ArgumentError('prompt', `got ${shown(prompt)}, expected an index of a column, 0 to ${prompts - 1}`);
    }
    this.#refuseTaken(prompt);
    const sums = sumsOf(scores);
    const rows =
      sums === undefined
        ? this.#rowsOfTensor(prompt, scores as Tensor)
        : this.#rowsByCount(prompt, sums.length, 'sums');
    this.#taken.add(prompt);
    return this.#track([prompt], async () => {
      const opened = await engine();
      if (sums !== undefined) this.#place(opened, prompt, rows, sums);
      else await this.#sumColumn(opened, prompt, rows, scores as Tensor, signal);
    });
  }

  /** @throws {ArgumentError} if some prompt was scored before, or the scores do not fit the step */
  addAll(scores: WholeScores, engine: () => Promise<Engine>, signal?: AbortSignal): Promise<void> {
    const { logprobs, sums } = scores;
    if ((logprobs === undefined) === (sums === undefined)) {
      throw new ArgumentError(
        'scores',
        'give exactly one of `logprobs` ([P, R, T] or packed [P, N]) and `sums` ([R, P])',
      );
    }
    const first = [...this.#taken].sort((a, b) => a - b)[0];
    if (first !== undefined) this.#refuseTaken(first);
    const { rows, prompts } = this.#labels;
    if (sums !== undefined) expectShape('scores.sums', sums, [rows, prompts], '[R, P]');
    else if (logprobs?.shape.length === 2) expectShape('scores.logprobs', logprobs, [prompts], 'packed [P, N]');
    else expectShape('scores.logprobs', logprobs as Tensor, [prompts, rows], '[P, R, T]');
    const all = Array.from({ length: prompts }, (_, prompt) => prompt);
    for (const prompt of all) this.#taken.add(prompt);
    return this.#track(all, async () => {
      const opened = await engine();
      if (logprobs !== undefined) {
        this.#sums = (await opened.sumTokens(logprobs, this.#lengths, { signal })).sums;
      } else {
        // A copy, as the caller may use its memory again; from any dtype and strides.
        this.#sums = await opened.gatherScores(sums as Tensor, { signal });
      }
    });
  }

  /**
   * The sums [R, P], once all that was begun is there. Cells that no metric reads are NaN.
   * @throws {ArgumentError} naming the prompts that were never scored
   */
  async all(engine: () => Promise<Engine>): Promise<Tensor> {
    await Promise.allSettled(this.#running);
    const missing = [...this.#wanted.keys()].filter((prompt) => !this.#taken.has(prompt));
    if (missing.length > 0) {
      const named = missing.slice(0, 8).map((prompt) => `${prompt} (group ${groupOfPrompt(this.#labels, prompt)})`);
      const more = missing.length > 8 ? ', …' : '';
      throw new ArgumentError(
        'scores',
        `${missing.length} of ${this.#wanted.size} prompts were never scored: ${named.join(', ')}${more}; call step.score() ` +
          'for each of step.pairs().byPrompt, then step.finish() again',
      );
    }
    return this.#matrix(await engine());
  }

  #refuseTaken(prompt: number): void {
    if (!this.#taken.has(prompt)) return;
    throw new ArgumentError('prompt', `prompt ${prompt} was scored before: score each prompt of a step once`);
  }

  /** Runs the work of some prompts; where it fails they can be scored again. */
  async #track(prompts: readonly number[], work: () => Promise<void>): Promise<void> {
    const running = work().catch((error: unknown) => {
      for (const prompt of prompts) this.#taken.delete(prompt);
      throw error;
    });
    this.#running.add(running);
    try {
      await running;
    } finally {
      this.#running.delete(running);
    }
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

  /** The same for log-probs; packed ones tell by their number of tokens. */
  #rowsOfTensor(prompt: number, { shape }: Tensor): Int32Array | undefined {
    const [first, second] = shape as [number, number?];
    if (second !== undefined) return this.#rowsByCount(prompt, first, 'logprobs');
    const tokens = (rows: Iterable<number>): number => {
      let total = 0;
      for (const row of rows) total += Number(this.#lengths[row]);
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

  async #sumColumn(
    engine: Engine,
    prompt: number,
    rows: Int32Array | undefined,
    scores: Tensor,
    signal: AbortSignal | undefined,
  ): Promise<void> {
    const logprobs = asOnePrompt(scores);
    if (rows === undefined) {
      await engine.sumTokens(logprobs, this.#lengths, { out: this.#matrix(engine), columns: [prompt], signal });
      return;
    }
    const lengths = BigInt64Array.from(rows, (row) => BigInt(this.#lengths[row] as number | bigint));
    const { sums } = await engine.sumTokens(logprobs, lengths, { signal });
    this.#place(engine, prompt, rows, sums.data as Float64Array);
  }

  #place(engine: Engine, prompt: number, rows: Int32Array | undefined, sums: ArrayLike<number>): void {
    const { data, shape } = this.#matrix(engine);
    const prompts = shape[1] as number;
    for (let at = 0; at < sums.length; at++) {
      data[(rows === undefined ? at : (rows[at] as number)) * prompts + prompt] = sums[at] as number;
    }
  }

  #matrix(engine: Engine): Tensor {
    if (this.#sums === undefined) {
      const { rows, prompts } = this.#labels;
      this.#sums = engine.alloc('float64', [rows, prompts]);
      this.#sums.data.fill(Number.NaN);
    }
    return this.#sums;
  }
}

/** Sums over tokens, copied; undefined if the scores are log-probs of tokens. */
function sumsOf(scores: ColumnScores): Float64Array | undefined {
  if (types.isFloat64Array(scores) || types.isFloat32Array(scores)) return Float64Array.from(scores);
  if (Array.isArray(scores)) {
    const stranger = scores.findIndex((value) => typeof value !== 'number');
    if (stranger >= 0)
      throw new ArgumentError('sums', `entry ${stranger} is ${shown(scores[stranger])}, expected a number`);
    return Float64Array.from(scores as readonly number[]);
  }
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

function expectShape(argument: string, tensor: Tensor, expected: readonly number[], meaning: string): void {
  const shape = tensor?.shape;
  const fits = Array.isArray(shape) && expected.every((extent, axis) => shape[axis] === extent);
  const axes = meaning.split(',').length;
  if (fits && shape.length === axes) return;
  const got = Array.isArray(shape) ? `[${shape.join(', ')}]` : shown(tensor);
  throw new ArgumentError(argument, `got ${got}, expected ${meaning} with ${expected.join(' and ')} first`);
}

// The result of a step as it fills: sums over tokens [R, P], and where the first token is that makes one invalid.
import type { Engine } from './engine.js';
import type { InvalidToken } from './invalid-tokens.js';
import type { TokenSums } from './operations.js';
import type { HostTensor } from './tensor.js';

export class StepSums {
  readonly #prompts: number;
  readonly #rows: number;
  readonly #lengths: Float64Array;
  #tensor: HostTensor | undefined;
  /** The first NaN or +inf of pairs that have one; of blocks of whole rows only that of the first such pair. */
  readonly #invalid = new Map<number, number>();

  /**
   * @param prompts of the step
   * @param lengths tokens of each row of the step
   */
  constructor(prompts: number, lengths: Float64Array) {
    this.#prompts = prompts;
    this.#rows = lengths.length;
    this.#lengths = lengths;
  }

  /** Float64 [R, P], made when it is first needed: NaN where nothing has come, 0 for rows without tokens. */
  tensor(engine: Engine): HostTensor {
    if (this.#tensor === undefined) {
      this.#tensor = engine.alloc('float64', [this.#rows, this.#prompts]);
      const { data } = this.#tensor;
      data.fill(Number.NaN);
      this.#lengths.forEach((length, row) => {
        if (length === 0) data.fill(0, row * this.#prompts, (row + 1) * this.#prompts);
      });
    }
    return this.#tensor;
  }

  /** The part of tensor() with these rows, to be written to. */
  rows(engine: Engine, first: number, count: number): HostTensor {
    const { data, dtype } = this.tensor(engine);
    const [begin, end] = [first, first + count].map((row) => row * this.#prompts);
    return { data: data.subarray(begin, end), dtype, shape: [count, this.#prompts] };
  }

  noteInvalid({ pair, token }: InvalidToken): void {
    this.#invalid.set(pair, Math.min(token, this.#invalid.get(pair) ?? token));
  }

  /** As if nothing of the pair prompt·R + row had come. */
  forget(pair: number): void {
    this.#invalid.delete(pair);
    if (this.#tensor === undefined) return;
    this.#tensor.data[(pair % this.#rows) * this.#prompts + Math.floor(pair / this.#rows)] = Number.NaN;
  }

  result(engine: Engine): TokenSums {
    const pair = this.#invalid.size === 0 ? -1 : [...this.#invalid.keys()].reduce((a, b) => Math.min(a, b));
    const token = this.#invalid.get(pair) ?? -1;
    return {
      sums: this.tensor(engine),
      lengths: BigInt64Array.from(this.#lengths, BigInt),
      firstInvalid: pair < 0 ? null : { prompt: Math.floor(pair / this.#rows), row: pair % this.#rows, token },
    };
  }

  /** Gives the memory back. */
  clear(): void {
    this.#tensor = undefined;
  }
}

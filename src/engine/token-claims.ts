// Which tokens of a step have come or are coming, so that each comes once: a state a (row, prompt) pair, and of rows that
// came in part the row that has begun.
import { ArgumentError } from '../errors.js';
import { BegunRow } from './begun-row.js';
import type { MissingTokens } from './missing-tokens.js';
import type { CheckedBlock } from './token-block.js';
import { addSpan, firstCommon, firstGap, removeSpan } from './token-spans.js';

/** State of a (row, prompt) pair; what is being taken in counts as there. */
const NOTHING = 0;
const PART = 1;
const WHOLE = 2;

/** What of a block is claimed: its tokens are then nobody else's to give. */
export type ClaimedBlock = Pick<CheckedBlock, 'prompts' | 'rows' | 'whole' | 'parts' | 'view'>;

/** A pair is the number prompt·R + row. */
export class TokenClaims {
  readonly #lengths: Float64Array;
  readonly #rows: number;
  #state: Uint8Array;
  readonly #begun = new Map<number, BegunRow>();

  /**
   * @param prompts of the step
   * @param lengths tokens of each row of the step
   * @throws {ArgumentError} if there is no memory for so many pairs
   */
  constructor(prompts: number, lengths: Float64Array) {
    this.#lengths = lengths;
    this.#rows = lengths.length;
    try {
      this.#state = new Uint8Array(prompts * this.#rows);
    } catch (error) {
      const problem = `${prompts} prompts × ${this.#rows} rows are more pairs than memory can be had for`;
      throw new ArgumentError('options.prompts', problem, { cause: error });
    }
  }

  /** Pairs of which some tokens have come, and not all. */
  get begunPairs(): number {
    return this.#begun.size;
  }

  /** The row of a pair that has come in part. */
  begun(pair: number): BegunRow {
    return this.#begun.get(pair) as BegunRow;
  }

  /** The first token of a pair that has come or is coming; undefined if none is. */
  firstGiven(pair: number): number | undefined {
    return this.#state[pair] === NOTHING ? undefined : (this.#begun.get(pair)?.spans[0] ?? 0);
  }

  /**
   * Claims all of a block, or nothing.
   * @returns the rows that the block's parts are parts of, prompt by prompt
   * @throws {ArgumentError} for tokens that are claimed, or in another dtype than others of their row
   */
  claim(block: ClaimedBlock): BegunRow[] {
    const begun = this.#expectFree(block);
    const { prompts, rows, whole, parts, view } = block;
    const { dtype } = view;
    const claimed: BegunRow[] = [];
    for (const prompt of prompts.indices) {
      const first = prompt * this.#rows;
      for (const at of whole) this.#state[first + (rows.indices[at] as number)] = WHOLE;
      for (const { row, from, to } of parts) {
        let part = begun[claimed.length];
        if (part === undefined) {
          part = new BegunRow(dtype, from, to);
          this.#state[first + row] = PART;
          this.#begun.set(first + row, part);
        } else addSpan(part.spans, from, to);
        claimed.push(part);
      }
    }
    return claimed;
  }

  /** @returns of the block's parts, prompt by prompt, the rows that have begun */
  #expectFree({ prompts, rows, whole, parts, view }: ClaimedBlock): (BegunRow | undefined)[] {
    const begun: (BegunRow | undefined)[] = [];
    for (const prompt of prompts.indices) {
      const first = prompt * this.#rows;
      for (const at of whole) {
        const pair = first + (rows.indices[at] as number);
        if (this.#state[pair] !== NOTHING) this.#refuse(pair, this.#begun.get(pair)?.spans[0] ?? 0);
      }
      for (const { row, from, to } of parts) {
        const pair = first + row;
        const part = this.#state[pair] === PART ? this.#begun.get(pair) : undefined;
        begun.push(part);
        if (this.#state[pair] === NOTHING) continue;
        const common = part === undefined ? from : firstCommon(part.spans, from, to);
        if (common !== undefined) this.#refuse(pair, common);
        if (part === undefined || part.dtype === view.dtype) continue;
        throw new ArgumentError(
          'logprobs.dtype',
          `got ${view.dtype}, but other tokens of prompt ${prompt}, row ${row} came as ${part.dtype}: ` +
            'give all tokens of a row in one dtype',
        );
      }
    }
    return begun;
  }

  #refuse(pair: number, token: number): never {
    const [prompt, row] = [Math.floor(pair / this.#rows), pair % this.#rows];
    const problem = `prompt ${prompt}, row ${row}, token ${token} came before: give each token of a step once`;
    throw new ArgumentError('block', problem);
  }

  /** Takes the claim of a block back, which was not taken in. */
  unclaim({ prompts, rows, whole, parts }: ClaimedBlock): void {
    for (const prompt of prompts.indices) {
      const first = prompt * this.#rows;
      for (const at of whole) this.#state[first + (rows.indices[at] as number)] = NOTHING;
      for (const { row, from, to } of parts) {
        const { spans } = this.begun(first + row);
        removeSpan(spans, from, to);
        if (spans.length === 0) this.forget(first + row);
      }
    }
  }

  /** A pair that came in part is summed to its end. */
  complete(pair: number): void {
    this.#state[pair] = WHOLE;
    this.#begun.delete(pair);
  }

  /**
   * All of a pair may come again.
   * @returns the row, if it had begun
   */
  forget(pair: number): BegunRow | undefined {
    const begun = this.#begun.get(pair);
    this.#begun.delete(pair);
    this.#state[pair] = NOTHING;
    return begun;
  }

  /** What has not come of these rows under one prompt; undefined if all has. */
  missing(prompt: number, rows: Int32Array): MissingTokens | undefined {
    const first = prompt * this.#rows;
    const lacking = rows.filter((row) => this.#lengths[row] !== 0 && this.#state[first + row] !== WHOLE);
    const [row] = lacking;
    if (row === undefined) return undefined;
    const spans = this.#begun.get(first + row)?.spans ?? [];
    const length = this.#lengths[row] as number;
    const untouched = rows.every((each) => this.#state[first + each] === NOTHING);
    return { prompt, rows: lacking.length, row, ...(firstGap(spans, length) ?? { from: 0, to: length }), untouched };
  }

  /** Gives the memory back; no claim is made after this. */
  clear(): void {
    this.#state = new Uint8Array(0);
    this.#begun.clear();
  }
}

// Log-probs of a step in blocks of any shape and order -> the sums over tokens [R, P] that the whole would give, to the bit.
// What is whole (a row, or a leaf of a long row) is summed where it stands; the rest waits until it is.
import { ArgumentError } from '../errors.js';
import { checkArray, checkObject, checkOptions, optionNames } from './argument-checks.js';
import type { BegunRow } from './begun-row.js';
import { BlockPieces } from './block-pieces.js';
import { counted } from './counted.js';
import { DeviceTensor } from './device-tensor.js';
import type { Engine } from './engine.js';
import { integerArray } from './integers.js';
import { LEAF_TOKENS } from './leaf-grid.js';
import { type MissingTokens, missingSentence } from './missing-tokens.js';
import type { TokenSums } from './operations.js';
import { shown } from './shown.js';
import { StepSums } from './step-sums.js';
import { type BlockSums, sumBlock } from './sum-block.js';
import type { Integers } from './tensor.js';
import { viewHostTensor } from './tensor-view.js';
import {
  blockAxis,
  type CheckedBlock,
  checkBlock,
  type SumsBlock,
  type TokenBlock,
  type TokenBox,
} from './token-block.js';
import { type ClaimedBlock, TokenClaims } from './token-claims.js';
import { sumReadyLeaves, WaitingLeaves } from './waiting-leaves.js';

export interface TokenSumsSinkOptions {
  /** P */
  readonly prompts: number;
  /** R */
  readonly rows: number;
  /** [R] tokens of each row. */
  readonly lengths: Integers;
  /** The (row, prompt) pairs without which finish() refuses to end; others may come too. Default: all. */
  readonly pairs?: readonly { readonly prompt: number; readonly rows: ArrayLike<number> }[] | undefined;
  /** Ends the sink as abort() does. */
  readonly signal?: AbortSignal | undefined;
}

export interface BlockOptions {
  readonly signal?: AbortSignal | undefined;
}

const OPTIONS = optionNames<TokenSumsSinkOptions>({
  prompts: true,
  rows: true,
  lengths: true,
  pairs: true,
  signal: true,
});
const BLOCK_OPTIONS = optionNames<BlockOptions>({ signal: true });

/** What a sink holds of rows that have begun and are not complete. */
export interface HeldTokens {
  /** (row, prompt) pairs of which some tokens have come, and not all. */
  readonly pairs: number;
  /** Tokens that wait for the rest of their leaf. */
  readonly tokens: number;
  /** Memory set aside for these leaves, in slabs of 256 KiB. */
  readonly bytes: number;
}

/** Blocks that belong together, such as those of one stream. */
export interface BlockSession {
  /** As TokenSumsSink.add() */
  add(block: TokenBlock, options?: BlockOptions): Promise<void>;
  /** As TokenSumsSink.addSums() */
  addSums(block: SumsBlock, options?: BlockOptions): Promise<void>;
  /** Forgets every row under every prompt of which one of these blocks gave something; they may come again. */
  undo(): Promise<void>;
}

/**
 * Collects a step's sums over tokens from blocks: any boxes of prompts × rows × tokens, in any order, several at a time.
 * finish() gives what `engine.sumTokens` gives of the whole [P, R, T], to the bit.
 *
 * Besides the result (R·P float64) and a byte a (row, prompt) pair it holds
 * - for blocks of whole rows (one prompt, some rows, everything): nothing; they are read where they stand;
 * - for blocks of tokens in order: of each pair that has begun, the tokens of the one leaf of 4096 that is not complete,
 *   in their own dtype: a row of up to 4096 tokens until its last token has come, and less than 4096 of a longer one.
 *   Leaves that come whole are read where they stand, so blocks cut at multiples of 4096 leave nothing to wait;
 * - for blocks of tokens in any order: of each pair, all leaves that have begun and are not complete, and 8 bytes for each
 *   leaf that is complete before one in front of it.
 * Memory is set aside a leaf at a time, in slabs of 256 KiB that are given back when all leaves in them are complete (up to
 * 8 free ones are kept for the next rows); beside that a pair that has begun costs some 300 bytes. To hold little, end the
 * tokens of one prompt, or of some rows, before the next begin. `held` tells what waits.
 */
export class TokenSumsSink {
  readonly prompts: number;
  readonly rows: number;
  readonly #engine: () => Promise<Engine>;
  readonly #lengths: Float64Array;
  readonly #pairs: readonly { readonly prompt: number; readonly rows: Int32Array }[] | undefined;
  readonly #claims: TokenClaims;
  readonly #waiting = new WaitingLeaves();
  readonly #sums: StepSums;
  readonly #running = new Map<Promise<unknown>, AbortController>();
  #aborted: { readonly reason: unknown } | undefined;
  #result: TokenSums | undefined;
  #unlisten = (): void => undefined;

  /**
   * @internal Use `engine.tokenSumsSink()`.
   * @param engine asked for when the first block comes
   */
  constructor(engine: () => Promise<Engine>, options: TokenSumsSinkOptions) {
    checkOptions(options, OPTIONS);
    const { prompts, rows, lengths, pairs, signal } = options;
    for (const [name, value] of Object.entries({ prompts, rows })) {
      if (Number.isSafeInteger(value) && value >= 0 && value < 2 ** 31) continue;
      throw new ArgumentError(`options.${name}`, `got ${shown(value)}, expected a count below 2^31`);
    }
    this.#lengths = Float64Array.from<number | bigint>(integerArray(lengths, 'options.lengths'), Number);
    if (this.#lengths.length !== rows) {
      throw new ArgumentError(
        'options.lengths',
        `has ${counted(this.#lengths.length, 'entries')}, expected one a row: ${rows}`,
      );
    }
    const wrong = this.#lengths.findIndex((length) => !Number.isSafeInteger(length) || length < 0);
    if (wrong >= 0) {
      throw new ArgumentError('options.lengths', `row ${wrong} is ${this.#lengths[wrong]}, expected a count of tokens`);
    }
    this.prompts = prompts;
    this.rows = rows;
    this.#engine = engine;
    if (pairs !== undefined) checkArray(pairs, 'options.pairs');
    this.#pairs = (pairs && Array.from(pairs))?.map((pair, at) => {
      checkObject(pair, `options.pairs[${at}]`);
      const { prompt, rows: pairRows } = pair;
      if (!Number.isInteger(prompt) || prompt < 0 || prompt >= prompts) {
        const problem = `got ${shown(prompt)}, expected a prompt: 0 to ${prompts - 1}`;
        throw new ArgumentError(`options.pairs[${at}].prompt`, problem);
      }
      const argument = `options.pairs[${at}].rows`;
      checkArray(pairRows, argument);
      return { prompt, rows: blockAxis(Array.from(pairRows), rows, undefined, argument, 'row').indices };
    });
    this.#claims = new TokenClaims(prompts, this.#lengths);
    this.#sums = new StepSums(prompts, this.#lengths);
    if (signal === undefined) return;
    const onAbort = (): void => this.abort(signal.reason);
    if (signal.aborted) onAbort();
    else {
      signal.addEventListener('abort', onAbort, { once: true });
      this.#unlisten = () => signal.removeEventListener('abort', onAbort);
    }
  }

  /** What waits for the rest of its leaves. */
  get held(): HeldTokens {
    return { pairs: this.#claims.begunPairs, tokens: this.#waiting.tokens, bytes: this.#waiting.bytes };
  }

  /**
   * Takes a block of log-probs; resolves when its memory may be used again. Until then it must not change.
   * If it rejects, the sink is as it was, and the tokens may come again.
   * @throws {ArgumentError} (as a rejection) for a block that does not fit, or tokens that came before;
   *   `signal.reason` when aborted
   */
  async add(block: TokenBlock, options: BlockOptions = {}): Promise<void> {
    await this.#add(block, options, undefined);
  }

  /**
   * Takes sums of whole rows as they are. Of a row without tokens nothing needs to come; what comes is taken.
   * @throws {ArgumentError} (as a rejection) as add()
   */
  async addSums(block: SumsBlock, options: BlockOptions = {}): Promise<void> {
    await this.#addSums(block, options, undefined);
  }

  /** Blocks that can be undone together. Holds a byte a (row, prompt) pair. */
  session(): BlockSession {
    const touched = new Uint8Array(this.prompts * this.rows);
    return {
      add: (block, options = {}) => this.#add(block, options, touched),
      addSums: (block, options = {}) => this.#addSums(block, options, touched),
      undo: () => this.#forget(touched),
    };
  }

  /** @param touched [P·R] marks the block's pairs, once it is taken in */
  async #add(block: TokenBlock, options: BlockOptions, touched: Uint8Array | undefined): Promise<void> {
    this.#begin(options);
    if (block?.logprobs?.data instanceof DeviceTensor) return this.#addOnDevice(block, options, touched);
    const checked = checkBlock(block, this.prompts, this.#lengths);
    await this.#claimed(checked, touched, options.signal, (signal, begun) => this.#take(checked, begun, signal));
    try {
      await this.#track(options.signal, (signal) => this.#sumReady(signal));
    } catch {
      // The block is taken in. What could not be summed is tried again with the next one and by finish(), which names
      // the error.
      this.#expectOpen();
    }
  }

  /** Whole rows are summed where they are; parts of rows would have to wait here. */
  async #addOnDevice(block: TokenBlock, options: BlockOptions, touched: Uint8Array | undefined): Promise<void> {
    const { logprobs, prompts, rows, tokens } = block;
    if (tokens !== undefined) {
      const problem =
        'a DeviceTensor, which must hold whole rows: leave out `tokens`, or pass what its download() gives';
      throw new ArgumentError('logprobs.data', problem);
    }
    const { indices } = blockAxis(
      rows,
      this.rows,
      logprobs.shape.length === 2 ? undefined : logprobs.shape[1],
      'rows',
      'row',
    );
    const lengths = BigInt64Array.from(indices, (row) => BigInt(this.#lengths[row] as number));
    const engine = await this.#open(options.signal);
    const { sums } = await engine.sumTokens(logprobs, lengths, { signal: options.signal });
    await this.#addSums({ prompts, rows, sums }, options, touched);
  }

  async #addSums(block: SumsBlock, options: BlockOptions, touched: Uint8Array | undefined): Promise<void> {
    this.#begin(options);
    const view = viewHostTensor(block?.sums, 'sums', '[r, p]', [2]);
    const [rowCount, promptCount] = view.shape as [number, number];
    const rows = blockAxis(block.rows, this.rows, rowCount, 'rows', 'row');
    const prompts = blockAxis(block.prompts, this.prompts, promptCount, 'prompts', 'prompt');
    const all = [...rows.indices.keys()];
    const whole = all.filter((at) => (this.#lengths[rows.indices[at] as number] as number) > 0);
    await this.#claimed({ prompts, rows, whole, parts: [], view }, touched, options.signal, async (signal) => {
      const engine = await this.#open(signal);
      const sums = await engine.gatherScores(view, { signal });
      this.#expectOpen();
      this.#place(engine, prompts.indices, rows.indices, { at: all, leaf: undefined, sums });
    });
  }

  /**
   * The first token of these pairs that has come or is coming; undefined if none is.
   * @internal
   */
  firstGiven(box: Pick<TokenBox, 'prompts' | 'rows'>): { prompt: number; row: number; token: number } | undefined {
    const prompts = blockAxis(box.prompts, this.prompts, undefined, 'prompts', 'prompt').indices;
    const rows = blockAxis(box.rows, this.rows, undefined, 'rows', 'row').indices;
    for (const prompt of prompts) {
      for (const row of rows) {
        const token = this.#claims.firstGiven(prompt * this.rows + row);
        if (token !== undefined) return { prompt, row, token };
      }
    }
    return undefined;
  }

  /** What has not come, by rising prompt; blocks that are being taken in count as there. */
  missing(): MissingTokens[] {
    this.#expectOpen();
    const everyRow = Int32Array.from({ length: this.rows }, (_, row) => row);
    const wanted = this.#pairs ?? Array.from({ length: this.prompts }, (_, prompt) => ({ prompt, rows: everyRow }));
    const found: MissingTokens[] = [];
    if (this.#result !== undefined) return found;
    for (const { prompt, rows } of wanted) {
      const missing = this.#claims.missing(prompt, rows);
      if (missing !== undefined) found.push(missing);
    }
    return found.sort((a, b) => a.prompt - b.prompt);
  }

  /**
   * Ends the sink when all that was begun is in.
   * @returns what `sumTokens` gives of the whole; the sums of pairs that were not asked for and did not come are NaN
   * @throws {ArgumentError} (as a rejection) naming what is missing: add it, and finish again
   */
  async finish(): Promise<TokenSums> {
    if (this.#result !== undefined) return this.#result;
    this.#expectOpen();
    const engine = await this.#open(undefined);
    while (this.#running.size > 0 || this.#waiting.hasReady) {
      await this.settled();
      await this.#track(undefined, (signal) => this.#sumReady(signal));
    }
    this.#expectOpen();
    // Another call may have ended it meanwhile.
    if (this.#result !== undefined) return this.#result;
    const missing = this.missing();
    if (missing.length > 0) throw new ArgumentError('blocks', missingSentence(missing));
    const result = this.#sums.result(engine);
    this.#result = result;
    this.#release();
    return result;
  }

  /** Ends the sink: what runs stops and rejects with the reason, as every later call does, and all memory is released. */
  abort(reason: unknown = new DOMException('the sink was aborted', 'AbortError')): void {
    if (this.#aborted !== undefined || this.#result !== undefined) return;
    this.#aborted = { reason };
    for (const controller of this.#running.values()) controller.abort(reason);
    this.#release();
    this.#sums.clear();
  }

  /**
   * Blocks as a Web Stream, written no faster than they are taken in. Closing it does not end the sink. When it is aborted
   * or a block is refused, all rows that the stream gave something of are forgotten, so that they may come again.
   */
  writable(): WritableStream<TokenBlock> {
    const session = this.session();
    return new WritableStream<TokenBlock>({
      write: async (block, controller) => {
        try {
          // Node has the signal; the types of Node 20 forget it.
          const { signal } = controller as unknown as { readonly signal: AbortSignal };
          await session.add(block, { signal });
        } catch (error) {
          await session.undo();
          throw error;
        }
      },
      abort: () => session.undo(),
    });
  }

  #begin(options: BlockOptions): void {
    checkOptions(options, BLOCK_OPTIONS);
    this.#expectOpen();
    options.signal?.throwIfAborted();
    if (this.#result !== undefined) throw new ArgumentError('block', 'came after finish(): open a new sink');
  }

  #expectOpen(): void {
    if (this.#aborted !== undefined) throw this.#aborted.reason;
  }

  /** Resolves when no block is being taken in. */
  async settled(): Promise<void> {
    while (this.#running.size > 0) await Promise.allSettled(this.#running.keys());
  }

  /** Runs work under a signal of its own, which ends with the caller's and with the sink. */
  async #track(signal: AbortSignal | undefined, work: (signal: AbortSignal) => Promise<void>): Promise<void> {
    const controller = new AbortController();
    const onAbort = (): void => controller.abort(signal?.reason);
    if (signal?.aborted) onAbort();
    signal?.addEventListener('abort', onAbort, { once: true });
    const running = work(controller.signal);
    this.#running.set(running, controller);
    try {
      await running;
    } finally {
      this.#running.delete(running);
      signal?.removeEventListener('abort', onAbort);
    }
  }

  async #open(signal: AbortSignal | undefined): Promise<Engine> {
    const engine = await this.#engine();
    this.#expectOpen();
    signal?.throwIfAborted();
    return engine;
  }

  /** Runs the work of a block whose tokens none else may give meanwhile. Where it fails they may come again. */
  async #claimed(
    block: ClaimedBlock,
    touched: Uint8Array | undefined,
    signal: AbortSignal | undefined,
    work: (signal: AbortSignal, begun: readonly BegunRow[]) => Promise<void>,
  ): Promise<void> {
    const begun = this.#claims.claim(block);
    await this.#track(signal, async (own) => {
      try {
        await work(own, begun);
      } catch (error) {
        if (this.#aborted === undefined) this.#unclaim(block);
        throw error;
      }
      if (touched === undefined) return;
      for (const prompt of block.prompts.indices) {
        for (const at of block.whole) touched[prompt * this.rows + (block.rows.indices[at] as number)] = 1;
        for (const { row } of block.parts) touched[prompt * this.rows + row] = 1;
      }
    });
  }

  /** As if the block had not come, whatever a job that failed has written in its place. */
  #unclaim(block: ClaimedBlock): void {
    this.#claims.unclaim(block);
    for (const prompt of block.prompts.indices) {
      for (const at of block.whole) this.#sums.forget(prompt * this.rows + (block.rows.indices[at] as number));
    }
  }

  async #forget(touched: Uint8Array): Promise<void> {
    // Not settled(): between its end and what follows another block may begin, of a row that is forgotten under it.
    while (this.#running.size > 0) await Promise.allSettled(this.#running.keys());
    if (this.#aborted !== undefined || this.#result !== undefined) return;
    const begun: BegunRow[] = [];
    for (let pair = touched.indexOf(1); pair >= 0; pair = touched.indexOf(1, pair + 1)) {
      const row = this.#claims.forget(pair);
      if (row !== undefined) begun.push(row);
      this.#sums.forget(pair);
    }
    this.#waiting.forget(begun);
    touched.fill(0);
  }

  /** Everything that can fail comes first; then the block is taken in at once. */
  async #take(block: CheckedBlock, begun: readonly BegunRow[], signal: AbortSignal): Promise<void> {
    const engine = await this.#open(signal);
    const { summed, invalid } = await sumBlock(engine, block, this.#lengths, this.#sums, signal);
    this.#expectOpen();
    const pieces = new BlockPieces(engine, this.#waiting, block, begun, this.#lengths);
    try {
      while (pieces.copySome()) {
        await new Promise(setImmediate);
        this.#expectOpen();
        signal.throwIfAborted();
      }
    } catch (error) {
      if (this.#aborted === undefined) pieces.drop();
      throw error;
    }
    for (const sums of summed) this.#place(engine, block.prompts.indices, block.rows.indices, sums);
    for (const found of invalid) this.#sums.noteInvalid(found);
    pieces.takeIn();
  }

  /** Sums the leaves that are complete, a slab at a time. */
  async #sumReady(signal: AbortSignal): Promise<void> {
    if (!this.#waiting.hasReady) return;
    const engine = await this.#open(signal);
    const ready = this.#waiting.takeReady();
    let done = 0;
    try {
      for (const batch of ready) {
        const { sums, invalid } = await sumReadyLeaves(engine, batch, signal);
        this.#expectOpen();
        done++;
        for (const found of invalid) this.#sums.noteInvalid(found);
        batch.leaves.forEach((leaf, at) => {
          this.#waiting.summed(leaf);
          this.#addLeaf(engine, leaf.pair, leaf.leaf, sums[at] as number);
        });
      }
    } catch (error) {
      if (this.#aborted === undefined) for (const batch of ready.slice(done)) this.#waiting.putBack(batch);
      throw error;
    }
  }

  #place(engine: Engine, prompts: Int32Array, rows: Int32Array, { at: positions, leaf, sums }: BlockSums): void {
    const { data } = this.#sums.tensor(engine);
    for (const at of positions) {
      const row = rows[at] as number;
      for (let column = 0; column < prompts.length; column++) {
        const prompt = prompts[column] as number;
        const sum = sums.data[at * prompts.length + column] as number;
        if (leaf === undefined) data[row * this.prompts + prompt] = sum;
        else this.#addLeaf(engine, prompt * this.rows + row, leaf, sum);
      }
    }
  }

  #addLeaf(engine: Engine, pair: number, leaf: number, sum: number): void {
    const begun = this.#claims.begun(pair);
    begun.addLeaf(leaf, sum);
    const [prompt, row] = [Math.floor(pair / this.rows), pair % this.rows];
    if (begun.summed * LEAF_TOKENS < (this.#lengths[row] as number)) return;
    // One NaN for all, whatever the processor makes of inf − inf.
    const total = Number.isNaN(begun.total) ? Number.NaN : begun.total;
    this.#sums.tensor(engine).data[row * this.prompts + prompt] = total;
    this.#claims.complete(pair);
  }

  #release(): void {
    this.#unlisten();
    this.#claims.clear();
    this.#waiting.clear();
  }
}

// Collects log-probs of a step in blocks of any shape and order into the sums over tokens [R, P] of the whole, to the
// bit. Native code keeps which tokens have come and their sums (native/engine/tokens/step_tokens.h).

import { types } from 'node:util';
import { onAbort } from '../../checks/abort.js';
import { checkArray, checkObject } from '../../checks/argument-checks.js';
import { ArgumentError } from '../../checks/errors.js';
import { checkOptions, is, type OptionTable } from '../../checks/options.js';
import { Turns } from '../../checks/turns.js';
import { counted, shown } from '../../checks/words.js';
import { loadAddon } from '../addon.js';
import type { EngineCore } from '../engine-core.js';
import { type HeldBuffers, lengthOfArray, maxBufferBytes, noteEngineMemory } from '../memory.js';
import type { HeldTokens, MissingTokens, NativeEngine, NativeTokenSink, Settle } from '../native.js';
import type { TokenSums } from '../operations/sum-tokens.js';
import { thrownError } from '../running-jobs.js';
import { DeviceTensor } from '../tensor/device-tensor.js';
import { integerArray } from '../tensor/integers.js';
import type { Integers, Tensor } from '../tensor/tensor.js';
import { matrixArguments, tokenArguments, viewHostTensor } from '../tensor/tensor-view.js';
import {
  ALL_TOKENS,
  blockAxis,
  type CheckedBlock,
  checkBlock,
  expectWholeRows,
  type SumsBlock,
  type TokenBlock,
  type TokenBox,
} from './token-block.js';

/** What a sink is opened with: the step’s extents and the rows’ lengths. */
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

/** Options of a block that is given to a sink. */
export interface BlockOptions {
  readonly signal?: AbortSignal | undefined;
}

const COUNT = is.integer(0, 2 ** 31 - 1);
const OPTIONS: OptionTable<TokenSumsSinkOptions> = {
  prompts: is.needed(COUNT),
  rows: is.needed(COUNT),
  lengths: is.any,
  pairs: is.any,
  signal: is.signal,
};
const BLOCK_OPTIONS: OptionTable<BlockOptions> = { signal: is.signal };

/** A step as a sink takes it, known to be right. */
export interface SinkStep {
  readonly prompts: number;
  readonly rows: number;
  /** [R] */
  readonly lengths: Float64Array;
  readonly pairs: readonly { readonly prompt: number; readonly rows: Int32Array }[] | undefined;
}

/** @throws {ArgumentError} naming what does not fit */
export function checkSinkOptions(options: TokenSumsSinkOptions): SinkStep {
  checkOptions(options, OPTIONS);
  const { prompts, rows, pairs } = options;
  const lengths = Float64Array.from<number | bigint>(integerArray(options.lengths, 'options.lengths'), Number);
  if (lengths.length !== rows) {
    throw new ArgumentError(
      'options.lengths',
      `has ${counted(lengths.length, 'entries')}, expected one a row: ${rows}`,
    );
  }
  const wrong = lengths.findIndex((length) => !Number.isSafeInteger(length) || length < 0);
  if (wrong >= 0) {
    throw new ArgumentError('options.lengths', `row ${wrong} is ${lengths[wrong]}, expected a count of tokens`);
  }
  if (pairs === undefined) return { prompts, rows, lengths, pairs };
  checkArray(pairs, 'options.pairs');
  const checked = Array.from(pairs).map((pair, at) => {
    checkObject(pair, `options.pairs[${at}]`);
    const { prompt, rows: pairRows } = pair;
    if (!Number.isInteger(prompt) || prompt < 0 || prompt >= prompts) {
      const problem = `got ${shown(prompt)}, expected a prompt: 0 to ${prompts - 1}`;
      throw new ArgumentError(`options.pairs[${at}].prompt`, problem);
    }
    const argument = `options.pairs[${at}].rows`;
    checkArray(pairRows, argument);
    const listed = types.isInt32Array(pairRows) ? pairRows : Array.from(pairRows);
    return { prompt, rows: blockAxis(listed, rows, undefined, argument, 'row') };
  });
  return { prompts, rows, lengths, pairs: checked };
}

/** What a sink needs of its engine. Blocks on the host are summed on the CPU of an engine on a GPU, too. */
interface BlockEngine {
  readonly blocks: Pick<EngineCore, 'native' | 'jobs' | 'expectOpen'>;
  sumTokens(logprobs: Tensor, lengths: Integers, options: { signal: AbortSignal }): Promise<TokenSums>;
}

/** Blocks that belong together, such as those of one stream. */
export interface BlockSession {
  /** As TokenSumsSink.add() */
  add(block: TokenBlock, options?: BlockOptions): Promise<void>;
  /** As TokenSumsSink.addSums() */
  addSums(block: SumsBlock, options?: BlockOptions): Promise<void>;
  /** Forgets every (row, prompt) pair that one of these blocks gave something of; they may come again. */
  undo(): Promise<void>;
}

/**
 * Collects a step's sums over tokens from blocks: any boxes of prompts × rows × tokens, in any order, several at a
 * time. finish() gives what `engine.sumTokens` gives of the whole [P, R, T], to the bit. Blocks on the host are summed
 * on the CPU, those on a GPU there.
 *
 * Besides the result (R·P float64) and three bytes a (row, prompt) pair it holds
 * - for blocks of whole rows (one prompt, some rows, everything): nothing; they are read in place;
 * - for blocks of tokens in order: some 500 bytes for each pair that has begun and has not ended, however long its row:
 *   tokens are added up as they come. While a block is computed, and until the next begins, the state that it continues
 *   from is kept: 300 bytes more for each pair of the block. Rows that begin without their neighbours take up to 1 KB;
 * - for blocks of tokens in any order: also copies, in their own dtype, of the tokens that come ahead of others of
 *   their leaf (4096 tokens of the row) with some 100 bytes a piece, and 64 bytes for each leaf that is complete before
 *   one in front of it.
 * To hold little, end the tokens of one prompt, or of some rows, before the next begin. `held` says what is held.
 */
export class TokenSumsSink {
  /** P */
  readonly prompts: number;
  /** R */
  readonly rows: number;
  readonly #engine: () => Promise<BlockEngine>;
  readonly #lengths: Float64Array;
  readonly #pairs: readonly { readonly prompt: number; readonly rows: Int32Array }[] | undefined;
  #native: NativeTokenSink | undefined;
  /** Blocks are computed one after the other: each continues from the state that the one before has left. */
  readonly #turns = new Turns();
  readonly #running = new Map<Promise<unknown>, AbortController>();
  #aborted: { readonly reason: unknown } | undefined;
  #result: TokenSums | undefined;
  #unlisten = (): void => undefined;

  /**
   * @internal Use `engine.tokenSumsSink()`.
   * @param engine asked for when the first block comes
   */
  constructor(engine: () => Promise<BlockEngine>, { prompts, rows, lengths, pairs }: SinkStep, signal?: AbortSignal) {
    this.prompts = prompts;
    this.rows = rows;
    this.#engine = engine;
    this.#lengths = lengths;
    this.#pairs = pairs;
    if (signal?.aborted) this.abort(signal.reason);
    else this.#unlisten = onAbort(signal, () => this.abort(signal?.reason));
  }

  /** What rows hold that have begun and are not complete. */
  get held(): HeldTokens {
    return this.#native?.held() ?? { pairs: 0, tokens: 0, bytes: 0 };
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
    const tokens = tokenArguments(checked.view, checked.wholeLengths, undefined);
    await this.#take(checked, 'logprobs', touched, options.signal, (native, step, claim, settle, held) =>
      native.takeTokens(settle, step, claim, ...tokens(held)),
    );
  }

  /** Whole rows are summed where they are; parts of rows would have to wait here. */
  async #addOnDevice(block: TokenBlock, options: BlockOptions, touched: Uint8Array | undefined): Promise<void> {
    const { logprobs, prompts, rows, tokens } = block;
    if (tokens !== undefined) {
      const problem =
        'a DeviceTensor, which must hold whole rows: leave out `tokens`, or pass what its download() gives';
      throw new ArgumentError('logprobs.data', problem);
    }
    const count = logprobs.shape.length === 2 ? undefined : logprobs.shape[1];
    const indices = blockAxis(rows, this.rows, count, 'rows', 'row');
    expectWholeRows(logprobs.shape, indices, this.#lengths);
    const lengths = BigInt64Array.from(indices, (row) => BigInt(this.#lengths[row] as number));
    await this.#track(options.signal, async (signal) => {
      const engine = await this.#open(signal);
      const { sums } = await engine.sumTokens(logprobs, lengths, { signal });
      await this.#addSums({ prompts, rows, sums }, { signal }, touched);
    });
  }

  async #addSums(block: SumsBlock, options: BlockOptions, touched: Uint8Array | undefined): Promise<void> {
    this.#begin(options);
    const view = viewHostTensor(block?.sums, 'sums', '[r, p]', [2]);
    const [rowCount, promptCount] = view.shape as [number, number];
    const rows = blockAxis(block.rows, this.rows, rowCount, 'rows', 'row');
    const prompts = blockAxis(block.prompts, this.prompts, promptCount, 'prompts', 'prompt');
    const box = { prompts, rows, from: 0, to: ALL_TOKENS, view };
    await this.#take(box, 'sums', touched, options.signal, (native, step, claim, settle, held) =>
      native.takeSums(settle, step, claim, ...matrixArguments(view, 'sums', held)),
    );
  }

  /**
   * The first token of these pairs that has come or is coming; undefined if none is.
   * @internal
   */
  firstGiven(box: Pick<TokenBox, 'prompts' | 'rows'>): { prompt: number; row: number; token: number } | undefined {
    const prompts = blockAxis(box.prompts, this.prompts, undefined, 'prompts', 'prompt');
    const rows = blockAxis(box.rows, this.rows, undefined, 'rows', 'row');
    return this.#native?.firstGiven(prompts, rows) ?? undefined;
  }

  /** What has not come, by rising prompt; blocks that are being taken in count as there. */
  missing(): MissingTokens[] {
    this.#expectOpen();
    if (this.#result !== undefined) return [];
    const step = this.#step();
    const wanted = this.#pairs ?? Array.from({ length: this.prompts }, (_, prompt) => ({ prompt, rows: undefined }));
    return wanted
      .map(({ prompt, rows }) => asArgumentError(() => step.missing(prompt, rows)))
      .filter((found) => found !== null)
      .sort((a, b) => a.prompt - b.prompt);
  }

  /**
   * Ends the sink when all that was begun is in.
   * @returns what `sumTokens` gives of the whole; the sums of pairs that were not asked for and did not come are NaN
   * @throws {ArgumentError} (as a rejection) naming what is missing: add it, and finish again
   */
  async finish(): Promise<TokenSums> {
    this.#expectOpen();
    // Not settled(): between its end and what follows another block may begin, which is claimed and not computed.
    while (this.#running.size > 0) await Promise.allSettled(this.#running.keys());
    this.#expectOpen();
    // Another call may have ended it meanwhile.
    if (this.#result !== undefined) return this.#result;
    const missing = this.missing();
    if (missing.length > 0) throw new ArgumentError('blocks', missingSentence(missing));
    const step = this.#step();
    const { sums, firstInvalid } = asArgumentError(() => step.result());
    this.#result = {
      sums: { data: noteEngineMemory(sums), dtype: 'float64', shape: [this.rows, this.prompts] },
      lengths: BigInt64Array.from(this.#lengths, BigInt),
      firstInvalid,
    };
    this.#release();
    return this.#result;
  }

  /**
   * Ends the sink: what runs stops and rejects with the reason, as every later call does, and all memory is released.
   */
  abort(reason: unknown = new DOMException('the sink was aborted', 'AbortError')): void {
    if (this.#aborted !== undefined || this.#result !== undefined) return;
    this.#aborted = { reason };
    for (const controller of this.#running.values()) controller.abort(reason);
    this.#release();
  }

  /**
   * Blocks as a Web Stream, written no faster than they are taken in. Closing it does not end the sink. When it is
   * aborted or a block is refused, all rows that the stream gave something of are forgotten, so that they may come
   * again.
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
    const forget = onAbort(signal, () => controller.abort(signal?.reason));
    if (signal?.aborted) controller.abort(signal.reason);
    const running = work(controller.signal);
    this.#running.set(running, controller);
    try {
      await running;
    } finally {
      this.#running.delete(running);
      forget();
    }
  }

  async #open(signal: AbortSignal | undefined): Promise<BlockEngine> {
    const engine = await this.#engine();
    this.#expectOpen();
    signal?.throwIfAborted();
    return engine;
  }

  /**
   * Claims a block's tokens, which nobody else may give then, and takes it in. If that fails they may come again.
   */
  async #take(
    { prompts, rows, from, to, view }: Pick<CheckedBlock, 'prompts' | 'rows' | 'from' | 'to' | 'view'>,
    argument: 'logprobs' | 'sums',
    touched: Uint8Array | undefined,
    signal: AbortSignal | undefined,
    start: (native: NativeEngine, step: NativeTokenSink, claim: number, settle: Settle, held: HeldBuffers) => number,
  ): Promise<void> {
    if (prompts.length === 0 || rows.length === 0) return;
    const available = lengthOfArray(view.data);
    const operation = argument === 'sums' ? 'addSums' : 'add';
    const step = this.#step();
    const claim = asArgumentError(() => step.claim(prompts, rows, from, to, view.code));
    await this.#track(signal, async (own) => {
      let computed = false;
      try {
        await this.#turns.take(async () => {
          const { blocks } = await this.#open(own);
          blocks.expectOpen(operation);
          // It was free to go while it waited for its turn; native code would only find that it is too short.
          if (lengthOfArray(view.data) < available)
            throw new ArgumentError(argument, 'the ArrayBuffer was detached, or shrunk, before it was read');
          await blocks.jobs.run(
            operation,
            { signal: own },
            (settle, held) => start(blocks.native, step, claim, settle, held),
            () => undefined,
          );
          this.#expectOpen();
          computed = true;
          step.commit(claim, touched);
        }, own);
      } catch (error) {
        if (!computed && this.#aborted === undefined) step.unclaim(claim);
        throw error;
      }
    });
  }

  async #forget(touched: Uint8Array): Promise<void> {
    // Not settled(): between its end and what follows another block may begin, of a row that is forgotten under it.
    while (this.#running.size > 0) await Promise.allSettled(this.#running.keys());
    if (this.#aborted !== undefined || this.#result !== undefined) return;
    this.#native?.forget(touched);
  }

  /** Made when it is first needed: a step that is never scored needs no addon. */
  #step(): NativeTokenSink {
    this.#native ??= asArgumentError(
      () => new (loadAddon().NativeTokenSink)(this.prompts, this.#lengths, maxBufferBytes),
    );
    return this.#native;
  }

  #release(): void {
    this.#unlisten();
    this.#native?.close();
    this.#native = undefined;
  }
}

/** Native code names the argument that it refuses, or that memory is short. */
function asArgumentError<T>(call: () => T): T {
  try {
    return call();
  } catch (error) {
    throw thrownError('tokenSumsSink', error);
  }
}

function missingSentence(missing: readonly MissingTokens[]): string {
  const named = missing.slice(0, 8).map(({ prompt, rows, row, from, to, untouched }) => {
    const all = untouched ? ', none of which has come' : '';
    return `prompt ${prompt} lacks ${counted(rows, 'rows')}${all} (row ${row}: tokens ${from} to ${to - 1})`;
  });
  const more = missing.length > 8 ? `; and ${missing.length - 8} more prompts` : '';
  return `not all has come: ${named.join('; ')}${more}. Add it, then call finish() again`;
}

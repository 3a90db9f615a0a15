// Log-probs of a step in blocks of any shape and order -> the sums over tokens [R, P] that the whole would give, to the bit.
// What is whole (a row, or a leaf of a long row) is summed where it stands; the rest waits until it is.
import { ArgumentError } from '../errors.js';
import { checkArray, checkObject } from './argument-checks.js';
import { DeviceTensor } from './device-tensor.js';
import type { Engine } from './engine.js';
import { integerArray } from './integers.js';
import { findInvalid, type InvalidToken } from './invalid-tokens.js';
import { lengthOfArray } from './memory.js';
import type { TokenSums } from './operations.js';
import { checkOptions } from './running-jobs.js';
import type { DType, HostTensor, Integers } from './tensor.js';
import { type HostView, shown, viewHostTensor } from './tensor-view.js';
import {
  blockAxis,
  type CheckedBlock,
  checkBlock,
  type PartOfRow,
  type SumsBlock,
  type TokenBlock,
  type TokenBox,
} from './token-block.js';
import { addSpan, firstCommon, firstGap, removeSpan, type TokenSpans } from './token-spans.js';
import { copyTokens, LEAF_TOKENS, type WaitingPlace, WaitingTokens } from './waiting-tokens.js';

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

/** What a sink holds of rows that have begun and are not complete. */
export interface HeldTokens {
  /** (row, prompt) pairs of which some tokens have come, and not all. */
  readonly pairs: number;
  /** Tokens that wait for the rest of their leaf. */
  readonly tokens: number;
  /** Memory set aside for these leaves, in slabs of 256 KiB. */
  readonly bytes: number;
}

/** What has not come of one prompt. */
export interface MissingTokens {
  readonly prompt: number;
  /** Rows that are not complete. */
  readonly rows: number;
  /** The first of them, and the first tokens [from, to) that it lacks. */
  readonly row: number;
  readonly from: number;
  readonly to: number;
  /** No token of any row has come. */
  readonly untouched: boolean;
}

/** State of a (row, prompt) pair; what is being taken in counts as there. */
const NOTHING = 0;
const PART = 1;
const WHOLE = 2;

/** A pair that has come in part. */
interface PartRow {
  readonly dtype: DType;
  readonly spans: TokenSpans;
  readonly waiting: WaitingLeaf[];
  /** Sum of the first `summed` leaves … */
  total: number;
  summed: number;
  /** … and those of later ones, by leaf. */
  later: Map<number, number> | undefined;
}

interface WaitingLeaf {
  readonly pair: number;
  readonly part: PartRow;
  readonly leaf: number;
  readonly length: number;
  readonly place: WaitingPlace;
  /** Tokens that have not been taken in. */
  missing: number;
  /** Blocks that are writing to it. */
  writers: number;
}

interface Piece {
  readonly leaf: WaitingLeaf;
  readonly tokens: number;
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

/** What of a block is claimed: its tokens are then nobody else's to give. */
type ClaimedBlock = Pick<CheckedBlock, 'prompts' | 'rows' | 'whole' | 'parts' | 'view'>;

/** What a block gives before it is taken in. */
interface Summed {
  /** Positions of the rows, their leaf (undefined: whole rows), and sums [r, p] at all positions of the block. */
  readonly at: readonly number[];
  readonly leaf: number | undefined;
  readonly sums: HostTensor;
}

// Elements, and pieces of rows, that are copied before the event loop gets its turn: about a millisecond.
const COPIED_AT_ONCE = 2 ** 18;
const PIECES_AT_ONCE = 2 ** 12;

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
  /** NOTHING, PART or WHOLE of pair prompt·R + row. */
  #state: Uint8Array;
  readonly #parts = new Map<number, PartRow>();
  #waiting: WaitingTokens | undefined;
  #waitingTokens = 0;
  /** Complete leaves that wait to be summed. */
  #ready: WaitingLeaf[] = [];
  #sums: HostTensor | undefined;
  /** The first NaN or +inf of pairs that have one; of blocks of whole rows only that of the first such pair. */
  readonly #invalid = new Map<number, number>();
  readonly #running = new Map<Promise<unknown>, AbortController>();
  #aborted: { readonly reason: unknown } | undefined;
  #result: TokenSums | undefined;
  #unlisten = (): void => undefined;

  /**
   * @internal Use `engine.tokenSumsSink()`.
   * @param engine asked for when the first block comes
   */
  constructor(engine: () => Promise<Engine>, options: TokenSumsSinkOptions) {
    checkOptions(options);
    const { prompts, rows, lengths, pairs, signal } = options;
    for (const [name, value] of Object.entries({ prompts, rows })) {
      if (Number.isSafeInteger(value) && value >= 0 && value < 2 ** 31) continue;
      throw new ArgumentError(`options.${name}`, `got ${shown(value)}, expected a count below 2^31`);
    }
    this.#lengths = Float64Array.from<number | bigint>(integerArray(lengths, 'options.lengths'), Number);
    if (this.#lengths.length !== rows) {
      throw new ArgumentError('options.lengths', `has ${this.#lengths.length} entries, expected one a row: ${rows}`);
    }
    const wrong = this.#lengths.findIndex((length) => !Number.isSafeInteger(length) || length < 0);
    if (wrong >= 0) {
      throw new ArgumentError('options.lengths', `row ${wrong} is ${this.#lengths[wrong]}, expected a count of tokens`);
    }
    this.prompts = prompts;
    this.rows = rows;
    this.#engine = engine;
    if (pairs !== undefined) checkArray(pairs, 'options.pairs');
    this.#pairs = pairs?.map((pair, at) => {
      checkObject(pair, `options.pairs[${at}]`);
      checkArray(pair.rows, `options.pairs[${at}].rows`);
      return {
        prompt: blockAxis([pair.prompt], prompts, 1, 'prompts', 'prompt').indices[0] as number,
        rows: blockAxis(Array.from(pair.rows), rows, undefined, 'rows', 'row').indices,
      };
    });
    try {
      this.#state = new Uint8Array(prompts * rows);
    } catch (error) {
      const problem = `${prompts} prompts × ${rows} rows are more pairs than memory can be had for`;
      throw new ArgumentError('options.prompts', problem, { cause: error });
    }
    if (signal === undefined) return;
    const onAbort = (): void => this.abort(signal.reason);
    if (signal.aborted) onAbort();
    else {
      signal.addEventListener('abort', onAbort, { once: true });
      this.#unlisten = () => signal.removeEventListener('abort', onAbort);
    }
  }

  get held(): HeldTokens {
    return { pairs: this.#parts.size, tokens: this.#waitingTokens, bytes: this.#waiting?.bytes ?? 0 };
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
    const touched = new Uint8Array(this.#state.length);
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
    await this.#claimed(checked, touched, options.signal, (signal, claimed) => this.#take(checked, claimed, signal));
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
        const pair = prompt * this.rows + row;
        if (this.#state[pair] !== NOTHING) return { prompt, row, token: this.#parts.get(pair)?.spans[0] ?? 0 };
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
      const lacking = rows.filter((row) => this.#lengths[row] !== 0 && this.#state[prompt * this.rows + row] !== WHOLE);
      const [row] = lacking;
      if (row === undefined) continue;
      const spans = this.#parts.get(prompt * this.rows + row)?.spans ?? [];
      const length = this.#lengths[row] as number;
      const untouched = rows.every((each) => this.#state[prompt * this.rows + each] === NOTHING);
      found.push({
        prompt,
        rows: lacking.length,
        row,
        ...(firstGap(spans, length) ?? { from: 0, to: length }),
        untouched,
      });
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
    while (this.#running.size > 0 || this.#ready.length > 0) {
      await this.settled();
      await this.#track(undefined, (signal) => this.#sumReady(signal));
    }
    this.#expectOpen();
    // Another call may have ended it meanwhile.
    if (this.#result !== undefined) return this.#result;
    const missing = this.missing();
    if (missing.length > 0) throw new ArgumentError('blocks', missingSentence(missing));
    const pair = this.#invalid.size === 0 ? -1 : [...this.#invalid.keys()].reduce((a, b) => Math.min(a, b));
    const token = this.#invalid.get(pair) ?? -1;
    const result: TokenSums = {
      sums: this.#matrix(engine),
      lengths: BigInt64Array.from(this.#lengths, BigInt),
      firstInvalid: pair < 0 ? null : { prompt: Math.floor(pair / this.rows), row: pair % this.rows, token },
    };
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
    this.#sums = undefined;
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

  #begin({ signal, ...rest }: BlockOptions): void {
    checkOptions({ signal, ...rest });
    this.#expectOpen();
    signal?.throwIfAborted();
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
    work: (signal: AbortSignal, claimed: readonly PartRow[]) => Promise<void>,
  ): Promise<void> {
    const claimed = this.#claim(block);
    await this.#track(signal, async (own) => {
      try {
        await work(own, claimed);
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

  /** @returns what the block's parts are parts of, prompt by prompt */
  #claim({ prompts, rows, whole, parts, view }: ClaimedBlock): PartRow[] {
    const begun: (PartRow | undefined)[] = [];
    for (const prompt of prompts.indices) {
      const first = prompt * this.rows;
      for (const at of whole) {
        const pair = first + (rows.indices[at] as number);
        if (this.#state[pair] !== NOTHING) this.#refuse(pair, this.#parts.get(pair)?.spans[0] ?? 0);
      }
      for (const { row, from, to } of parts) {
        const pair = first + row;
        const part = this.#state[pair] === PART ? this.#parts.get(pair) : undefined;
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
    const { dtype } = view;
    const claimed: PartRow[] = [];
    for (const prompt of prompts.indices) {
      const first = prompt * this.rows;
      for (const at of whole) this.#state[first + (rows.indices[at] as number)] = WHOLE;
      for (const { row, from, to } of parts) {
        let part = begun[claimed.length];
        if (part === undefined) {
          part = { dtype, spans: [from, to], waiting: [], total: 0, summed: 0, later: undefined };
          this.#state[first + row] = PART;
          this.#parts.set(first + row, part);
        } else addSpan(part.spans, from, to);
        claimed.push(part);
      }
    }
    return claimed;
  }

  #refuse(pair: number, token: number): never {
    const [prompt, row] = [Math.floor(pair / this.rows), pair % this.rows];
    const problem = `prompt ${prompt}, row ${row}, token ${token} came before: give each token of a step once`;
    throw new ArgumentError('block', problem);
  }

  #unclaim({ prompts, rows, whole, parts }: ClaimedBlock): void {
    for (const prompt of prompts.indices) {
      const first = prompt * this.rows;
      for (const at of whole) this.#clear(first + (rows.indices[at] as number));
      for (const { row, from, to } of parts) {
        const { spans } = this.#parts.get(first + row) as PartRow;
        removeSpan(spans, from, to);
        if (spans.length > 0) continue;
        this.#parts.delete(first + row);
        this.#state[first + row] = NOTHING;
      }
    }
  }

  /** Nothing of the pair has come, whatever stands in its place: a job that failed may have written there. */
  #clear(pair: number): void {
    this.#state[pair] = NOTHING;
    if (this.#sums === undefined) return;
    this.#sums.data[(pair % this.rows) * this.prompts + Math.floor(pair / this.rows)] = Number.NaN;
  }

  async #forget(touched: Uint8Array): Promise<void> {
    await this.settled();
    if (this.#aborted !== undefined || this.#result !== undefined) return;
    this.#ready = this.#ready.filter(({ pair }) => touched[pair] === 0);
    for (let pair = touched.indexOf(1); pair >= 0; pair = touched.indexOf(1, pair + 1)) {
      this.#clear(pair);
      this.#invalid.delete(pair);
      for (const leaf of this.#parts.get(pair)?.waiting ?? []) {
        this.#waitingTokens -= leaf.length - leaf.missing;
        this.#waiting?.release(leaf.place);
      }
      this.#parts.delete(pair);
    }
    touched.fill(0);
  }

  /** Everything that can fail comes first; then the block is taken in at once. */
  async #take(block: CheckedBlock, claimed: readonly PartRow[], signal: AbortSignal): Promise<void> {
    const engine = await this.#open(signal);
    const summed: Summed[] = [];
    const invalid: InvalidToken[] = [];
    if (block.whole.length > 0) invalid.push(...(await this.#sumWhole(engine, block, summed, signal)));
    for (const leaf of wholeLeaves(block.parts, this.#lengths)) {
      for (const found of await this.#sumLeaf(engine, block, leaf, summed, signal)) invalid.push(found);
    }
    const pieces: Piece[] = [];
    try {
      await this.#copyPieces(engine, block, claimed, pieces, signal);
    } catch (error) {
      if (this.#aborted === undefined) this.#dropPieces(pieces);
      throw error;
    }
    for (const sums of summed) this.#place(engine, block.prompts.indices, block.rows.indices, sums);
    for (const found of invalid) this.#note(found);
    for (const { leaf, tokens } of pieces) {
      leaf.writers--;
      leaf.missing -= tokens;
      this.#waitingTokens += tokens;
      if (leaf.missing === 0) this.#ready.push(leaf);
    }
  }

  async #sumWhole(engine: Engine, block: CheckedBlock, summed: Summed[], signal: AbortSignal): Promise<InvalidToken[]> {
    const { view, prompts, rows, whole, wholeLengths: lengths } = block;
    const columns = prompts.indices;
    // Straight into the result where no cell in between belongs to another block.
    if (rows.first !== undefined && block.parts.length === 0 && whole.length === rows.indices.length) {
      const { data } = this.#matrix(engine);
      const [begin, end] = [rows.first, rows.first + lengths.length].map((row) => row * this.prompts);
      const out: HostTensor = {
        data: data.subarray(begin, end),
        dtype: 'float64',
        shape: [lengths.length, this.prompts],
      };
      const { firstInvalid } = await engine.sumTokens(view, lengths, { out, columns, signal });
      if (firstInvalid === null) return [];
      const sumAt = (at: number, column: number) => out.data[at * this.prompts + (columns[column] as number)] as number;
      return findInvalid(engine, this.rows, block, { view, lengths, sumAt, leaf: undefined }, signal);
    }
    const { sums, firstInvalid } = await engine.sumTokens(view, lengths, { signal });
    summed.push({ at: whole, leaf: undefined, sums });
    if (firstInvalid === null) return [];
    const sumAt = (at: number, column: number) => sums.data[at * columns.length + column] as number;
    return findInvalid(engine, this.rows, block, { view, lengths, sumAt, leaf: undefined }, signal);
  }

  /** One leaf of all rows of which the block holds that leaf whole. */
  async #sumLeaf(
    engine: Engine,
    block: CheckedBlock,
    leaf: number,
    summed: Summed[],
    signal: AbortSignal,
  ): Promise<InvalidToken[]> {
    const { view, firstToken, rows, prompts, parts } = block;
    const lengths = new BigInt64Array(rows.indices.length);
    const at: number[] = [];
    for (const part of parts) {
      const length = this.#lengths[part.row] as number;
      if (!holdsLeaf(part, leaf, length)) continue;
      lengths[part.at] = BigInt(leafLength(leaf, length));
      at.push(part.at);
    }
    const [promptCount, rowCount, tokenCount] = view.shape as [number, number, number];
    const skipped = leaf * LEAF_TOKENS - firstToken;
    const from: HostView = {
      ...view,
      data: view.data.subarray(skipped * (view.strides[2] as number)),
      shape: [promptCount, rowCount, Math.min(LEAF_TOKENS, tokenCount - skipped)],
    };
    const { sums, firstInvalid } = await engine.sumTokens(from, lengths, { signal });
    summed.push({ at, leaf, sums });
    if (firstInvalid === null) return [];
    const sumAt = (row: number, column: number) => sums.data[row * prompts.indices.length + column] as number;
    return findInvalid(engine, this.rows, block, { view: from, lengths, sumAt, leaf }, signal);
  }

  #note({ pair, token }: InvalidToken): void {
    this.#invalid.set(pair, Math.min(token, this.#invalid.get(pair) ?? token));
  }

  /** Copies what waits. Notes every piece, so that it can be dropped. */
  async #copyPieces(
    engine: Engine,
    block: CheckedBlock,
    claimed: readonly PartRow[],
    pieces: Piece[],
    signal: AbortSignal,
  ): Promise<void> {
    const { data } = block.view;
    const left = { tokens: COPIED_AT_ONCE, pieces: PIECES_AT_ONCE };
    for (let column = 0; column < block.prompts.indices.length; column++) {
      for (let next = 0; next < block.parts.length; ) {
        if (lengthOfArray(data) < block.available) {
          throw new ArgumentError('logprobs', 'the ArrayBuffer was detached before all of it was copied');
        }
        next = this.#copyParts(engine, block, claimed, column, next, pieces, left);
        if (left.tokens > 0 && left.pieces > 0) continue;
        left.tokens = COPIED_AT_ONCE;
        left.pieces = PIECES_AT_ONCE;
        await new Promise(setImmediate);
        this.#expectOpen();
        signal.throwIfAborted();
      }
    }
  }

  /**
   * Copies parts of rows under one prompt until nothing is left to copy or of the allowance.
   * A function of its own, as an asynchronous one starts unoptimized whenever it goes on.
   * @returns the part to go on with
   */
  #copyParts(
    engine: Engine,
    { view, prompts, parts, firstToken }: CheckedBlock,
    claimed: readonly PartRow[],
    column: number,
    next: number,
    pieces: Piece[],
    left: { tokens: number; pieces: number },
  ): number {
    const { data, dtype } = view;
    const [promptStride, rowStride, tokenStride] = view.strides as [number, number, number];
    const first = (prompts.indices[column] as number) * this.rows;
    let at = next;
    for (; at < parts.length && left.tokens > 0 && left.pieces > 0; at++) {
      const part = parts[at] as PartOfRow;
      const length = this.#lengths[part.row] as number;
      const start = column * promptStride + part.at * rowStride - firstToken * tokenStride;
      for (let leaf = Math.floor(part.from / LEAF_TOKENS); leaf * LEAF_TOKENS < part.to; leaf++) {
        if (holdsLeaf(part, leaf, length)) continue;
        const begin = Math.max(part.from, leaf * LEAF_TOKENS);
        const tokens = Math.min(part.to, (leaf + 1) * LEAF_TOKENS) - begin;
        const owner = claimed[column * parts.length + at] as PartRow;
        const waiting = this.#waitingLeaf(engine, owner, first + part.row, leaf, leafLength(leaf, length), dtype);
        waiting.writers++;
        pieces.push({ leaf: waiting, tokens });
        const { slab, offset } = waiting.place;
        const place = offset + begin - leaf * LEAF_TOKENS;
        copyTokens(data, start + begin * tokenStride, tokenStride, slab.tensor.data, place, tokens);
        left.tokens -= tokens;
        left.pieces--;
      }
    }
    return at;
  }

  #waitingLeaf(engine: Engine, part: PartRow, pair: number, leaf: number, length: number, dtype: DType): WaitingLeaf {
    for (const begun of part.waiting) if (begun.leaf === leaf) return begun;
    this.#waiting ??= new WaitingTokens((type, elements) => engine.alloc(type, [elements]));
    const place = this.#waiting.reserve(dtype, length);
    const waiting: WaitingLeaf = { pair, part, leaf, length, place, missing: length, writers: 0 };
    part.waiting.push(waiting);
    return waiting;
  }

  #dropPieces(pieces: readonly Piece[]): void {
    for (const { leaf } of pieces) {
      leaf.writers--;
      if (leaf.writers === 0 && leaf.missing === leaf.length) this.#releaseLeaf(leaf);
    }
  }

  #releaseLeaf(leaf: WaitingLeaf): void {
    leaf.part.waiting.splice(leaf.part.waiting.indexOf(leaf), 1);
    this.#waiting?.release(leaf.place);
  }

  /** Sums the leaves that are complete, a slab at a time. */
  async #sumReady(signal: AbortSignal): Promise<void> {
    if (this.#ready.length === 0) return;
    const engine = await this.#open(signal);
    const bySlab = new Map<HostTensor, WaitingLeaf[]>();
    for (const leaf of this.#ready) {
      const { tensor } = leaf.place.slab;
      const leaves = bySlab.get(tensor);
      if (leaves === undefined) bySlab.set(tensor, [leaf]);
      else leaves.push(leaf);
    }
    this.#ready = [];
    try {
      for (const [tensor, leaves] of bySlab) {
        const lengths = Int32Array.from(leaves, ({ length }) => length);
        const offsets = Int32Array.from(leaves, ({ place }) => place.offset);
        const packed: HostTensor = { ...tensor, shape: [1, tensor.data.length] };
        const { sums, firstInvalid } = await engine.sumTokens(packed, lengths, { offsets, signal });
        const invalid: InvalidToken[] = [];
        for (const [at, { pair, leaf }] of firstInvalid === null ? [] : leaves.entries()) {
          if ((sums.data[at] as number) < Infinity) continue;
          const [length, offset] = [lengths, offsets].map((of) => of.subarray(at, at + 1)) as [Int32Array, Int32Array];
          const { firstInvalid: found } = await engine.sumTokens(packed, length, { offsets: offset, signal });
          if (found !== null) invalid.push({ pair, token: leaf * LEAF_TOKENS + found.token });
        }
        this.#expectOpen();
        bySlab.delete(tensor);
        for (const found of invalid) this.#note(found);
        leaves.forEach((leaf, at) => {
          this.#waitingTokens -= leaf.length;
          this.#releaseLeaf(leaf);
          this.#addLeaf(engine, leaf.pair, leaf.leaf, sums.data[at] as number);
        });
      }
    } catch (error) {
      if (this.#aborted === undefined)
        for (const leaves of bySlab.values()) for (const leaf of leaves) this.#ready.push(leaf);
      throw error;
    }
  }

  #place(engine: Engine, prompts: Int32Array, rows: Int32Array, { at: positions, leaf, sums }: Summed): void {
    const { data } = this.#matrix(engine);
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

  /** Leaves are added in their order, as native/engine/sum_tokens.cpp does. */
  #addLeaf(engine: Engine, pair: number, leaf: number, sum: number): void {
    const part = this.#parts.get(pair) as PartRow;
    if (leaf !== part.summed) {
      part.later ??= new Map();
      part.later.set(leaf, sum);
      return;
    }
    for (let next: number | undefined = sum; next !== undefined; next = part.later?.get(part.summed)) {
      part.total += next;
      part.later?.delete(part.summed);
      part.summed++;
    }
    const row = pair % this.rows;
    if (part.summed * LEAF_TOKENS < (this.#lengths[row] as number)) return;
    const { data } = this.#matrix(engine);
    // One NaN for all, whatever the processor makes of inf − inf.
    data[row * this.prompts + Math.floor(pair / this.rows)] = Number.isNaN(part.total) ? Number.NaN : part.total;
    this.#state[pair] = WHOLE;
    this.#parts.delete(pair);
  }

  #matrix(engine: Engine): HostTensor {
    if (this.#sums === undefined) {
      this.#sums = engine.alloc('float64', [this.rows, this.prompts]);
      const { data } = this.#sums;
      data.fill(Number.NaN);
      this.#lengths.forEach((length, row) => {
        if (length === 0) data.fill(0, row * this.prompts, (row + 1) * this.prompts);
      });
    }
    return this.#sums;
  }

  #release(): void {
    this.#unlisten();
    this.#state = new Uint8Array(0);
    this.#parts.clear();
    this.#ready = [];
    this.#waiting = undefined;
    this.#waitingTokens = 0;
  }
}

function leafLength(leaf: number, rowLength: number): number {
  return Math.min(LEAF_TOKENS, rowLength - leaf * LEAF_TOKENS);
}

function holdsLeaf({ from, to }: Pick<PartOfRow, 'from' | 'to'>, leaf: number, rowLength: number): boolean {
  const begin = leaf * LEAF_TOKENS;
  return begin < rowLength && from <= begin && to >= begin + leafLength(leaf, rowLength);
}

/** Leaves that the block holds whole of some row, ascending. */
function wholeLeaves(parts: readonly PartOfRow[], lengths: Float64Array): number[] {
  const leaves = new Set<number>();
  for (const part of parts) {
    for (let leaf = Math.ceil(part.from / LEAF_TOKENS); leaf * LEAF_TOKENS < part.to; leaf++) {
      if (holdsLeaf(part, leaf, lengths[part.row] as number)) leaves.add(leaf);
    }
  }
  return [...leaves].sort((a, b) => a - b);
}

function missingSentence(missing: readonly MissingTokens[]): string {
  const named = missing.slice(0, 8).map(({ prompt, rows, row, from, to, untouched }) => {
    const all = untouched ? ', none of which has come' : '';
    return `prompt ${prompt} lacks ${rows} rows${all} (row ${row}: tokens ${from} to ${to - 1})`;
  });
  const more = missing.length > 8 ? `; and ${missing.length - 8} more prompts` : '';
  return `not all has come: ${named.join('; ')}${more}. Add it, then call finish() again`;
}

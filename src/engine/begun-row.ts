// A row under one prompt of which some tokens have come, and not all: which, what of them waits, and the sum so far.
import type { LeafPlace } from './leaf-slabs.js';
import type { DType } from './tensor.js';
import type { TokenSpans } from './token-spans.js';

/** A leaf that has begun and is not summed. */
export interface WaitingLeaf {
  readonly pair: number;
  readonly row: BegunRow;
  readonly leaf: number;
  readonly length: number;
  readonly place: LeafPlace;
  /** Tokens that have not been taken in. */
  missing: number;
  /** Blocks that are writing to it. */
  writers: number;
}

export class BegunRow {
  readonly dtype: DType;
  /** Tokens that have come or are coming. */
  readonly spans: TokenSpans;
  readonly waiting: WaitingLeaf[] = [];
  /** Sum of the first `#summed` leaves … */
  #total = 0;
  #summed = 0;
  /** … and those of later ones, by leaf. */
  #later: Map<number, number> | undefined;

  /** With the tokens [from, to) to begin with. */
  constructor(dtype: DType, from: number, to: number) {
    this.dtype = dtype;
    this.spans = [from, to];
  }

  /** How many leaves are in `total`: the first ones. */
  get summed(): number {
    return this.#summed;
  }

  get total(): number {
    return this.#total;
  }

  /** Leaves are added in their order, as native/engine/sum_tokens.cpp does. */
  addLeaf(leaf: number, sum: number): void {
    if (leaf !== this.#summed) {
      this.#later ??= new Map();
      this.#later.set(leaf, sum);
      return;
    }
    for (let next: number | undefined = sum; next !== undefined; next = this.#later?.get(this.#summed)) {
      this.#total += next;
      this.#later?.delete(this.#summed);
      this.#summed++;
    }
  }
}

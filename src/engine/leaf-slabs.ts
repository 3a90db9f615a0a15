// Memory for tokens that wait until their leaf is whole: compact, in the dtype that they came in, in slabs that are given
// back when all their leaves are through.
import { elementBytes } from './memory.js';
import type { DType, HostTensor } from './tensor.js';

// Some dozens of rows: enough to make a job of, little to hold for the sake of one row.
const SLAB_BYTES = 2 ** 18;
const KEPT_SLABS = 8;

interface Slab {
  readonly tensor: HostTensor;
  used: number;
  /** Leaves in it that are not through. */
  live: number;
}

/** The place of one leaf's tokens. */
export interface LeafPlace {
  readonly slab: Slab;
  /** In elements, of the leaf's first token. */
  readonly offset: number;
}

export class LeafSlabs {
  readonly #alloc: (dtype: DType, elements: number) => HostTensor;
  /** Free slabs, all of one dtype. */
  #free: Slab[] = [];
  #filling: Slab | undefined;
  #bytes = 0;

  constructor(alloc: (dtype: DType, elements: number) => HostTensor) {
    this.#alloc = alloc;
  }

  /** Bytes of the slabs that hold some leaf. */
  get bytes(): number {
    return this.#bytes;
  }

  /** @param length tokens of the leaf, 1 to LEAF_TOKENS */
  reserve(dtype: DType, length: number): LeafPlace {
    let slab = this.#filling;
    if (slab === undefined || slab.used + length > slab.tensor.data.length || slab.tensor.dtype !== dtype) {
      slab = this.#take(dtype);
      this.#filling = slab;
    }
    const place = { slab, offset: slab.used };
    slab.used += length;
    slab.live++;
    return place;
  }

  release({ slab }: LeafPlace): void {
    slab.live--;
    if (slab.live > 0) return;
    this.#bytes -= slab.tensor.data.byteLength;
    if (this.#filling === slab) this.#filling = undefined;
    slab.used = 0;
    if (this.#free.length < KEPT_SLABS) this.#free.push(slab);
  }

  #take(dtype: DType): Slab {
    if (this.#free[0] !== undefined && this.#free[0].tensor.dtype !== dtype) this.#free = [];
    const slab = this.#free.pop() ?? { tensor: this.#alloc(dtype, SLAB_BYTES / elementBytes[dtype]), used: 0, live: 0 };
    this.#bytes += slab.tensor.data.byteLength;
    return slab;
  }
}

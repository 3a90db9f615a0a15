// The roofline: a pure read of memory by the engine's own threads (native/engine/read_bytes.h), timed natively.
import { loadAddon } from '../dist/engine/addon.js';
import { maxBufferBytes } from '../dist/engine/memory.js';

const dtypeCodes = { float64: 0, float32: 1, float16: 2, bfloat16: 3 };

/** Prefetch distances in bytes that are tried; the fastest is the roofline. 0 leaves it to the hardware. */
export const readPlans = [0, 4096];

/** A pool of threads that only reads. */
export class Reader {
  #native;

  /** @param {number} threads */
  constructor(threads) {
    this.#native = new (loadAddon().NativeEngine)(threads, maxBufferBytes);
  }

  /**
   * Reads the first `elements` elements of a tensor in engine memory.
   * @returns {Promise<number>} seconds
   */
  read({ data, dtype }, elements, prefetchBytes) {
    return new Promise((resolve, reject) => {
      this.#native.readBytes(
        (outcome, value) => (outcome === 0 ? resolve(value.seconds) : reject(new Error(String(value)))),
        data,
        dtypeCodes[dtype],
        true,
        elements,
        prefetchBytes,
      );
    });
  }

  /** An empty job: what submitting and settling cost with nothing in between. */
  empty() {
    return new Promise((resolve) => this.#native.start(resolve));
  }

  close() {
    return new Promise((resolve) => this.#native.close(resolve));
  }
}

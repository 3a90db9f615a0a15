// The rooflines: what memory and arithmetic allow, by the engine's own threads, timed natively.
import { loadAddon } from '../../dist/engine/addon.js';
import { maxBufferBytes } from '../../dist/engine/memory.js';
import { dtypeCode, tokenArguments, viewHostTensor } from '../../dist/engine/tensor/tensor-view.js';

/** Prefetch distances in bytes that are tried; the fastest is the roofline. 0 leaves it to the hardware. */
export const readPlans = [0, 4096];

/** Of multiply-adds on each thread: some two milliseconds. */
const arithmeticSteps = 350_000;

/** A pool of threads that computes nothing. */
export class Reader {
  #native;

  /** @param {number} threads */
  constructor(threads) {
    this.#native = new (loadAddon().NativeEngine)(threads, maxBufferBytes);
  }

  #run(start) {
    return new Promise((resolve, reject) => {
      start((outcome, value) => (outcome === 0 ? resolve(value) : reject(new Error(String(value)))));
    });
  }

  /**
   * Reads the first `elements` elements of a tensor in engine memory (native/engine/roofline/read_bytes.h).
   * @returns {Promise<number>} seconds
   */
  async read({ data, dtype }, elements, prefetchBytes) {
    const code = dtypeCode(dtype);
    return (await this.#run((settle) => this.#native.readBytes(settle, data, code, true, elements, prefetchBytes)))
      .seconds;
  }

  /**
   * Touches each cache line of the valid tokens of a tensor in engine memory (native/engine/roofline/touch_lines.h).
   * @returns {Promise<number>} seconds
   */
  async touch(tensor, lengths) {
    const held = { protect: () => true };
    const tokens = tokenArguments(viewHostTensor(tensor, 'logprobs', '[P, R, T] or [P, N]'), lengths, undefined)(held);
    return (await this.#run((settle) => this.#native.touchLines(settle, ...tokens))).seconds;
  }

  /**
   * Vector multiply-adds of the engine's instruction set on all threads (native/engine/roofline/multiply_adds.h).
   * @returns {Promise<number>} seconds a lane: of one float32 multiply-add
   */
  async multiplyAdds() {
    const { seconds, count } = await this.#run((settle) => this.#native.multiplyAdds(settle, arithmeticSteps));
    return seconds / count;
  }

  /** An empty job: what submitting and settling cost with nothing in between. */
  empty() {
    return new Promise((resolve) => this.#native.start(resolve));
  }

  close() {
    return new Promise((resolve) => this.#native.close(resolve));
  }
}

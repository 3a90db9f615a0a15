// A small seeded generator, so that samples can be drawn again: same seed, same draws, on every machine.

/** xoshiro128** (Blackman and Vigna, 2018), seeded by splitmix32. */
export class Random {
  readonly #state: Uint32Array;

  constructor(seed: number) {
    this.#state = randomState(seed);
  }

  #next(): number {
    const s = this.#state as Uint32Array & { 0: number; 1: number; 2: number; 3: number };
    const product = Math.imul(s[1], 5);
    const result = Math.imul((product << 7) | (product >>> 25), 9) >>> 0;
    const shifted = s[1] << 9;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= shifted;
    s[3] = (s[3] << 11) | (s[3] >>> 21);
    return result;
  }

  /** An integer in [0, bound), every one equally likely; bound in [1, 2^32]. */
  below(bound: number): number {
    for (;;) {
      const draw = this.#next();
      const result = draw % bound;
      // Draws past the last whole multiple of the bound would favour small numbers.
      if (draw - result <= 2 ** 32 - bound) return result;
    }
  }
}

/** Where a generator of `seed` begins, here and in native/engine/inference/xoshiro.h: four words. */
export function randomState(seed: number): Uint32Array {
  const state = new Uint32Array(4);
  // Both halves of the seed count, so that seeds beyond 32 bits differ.
  let word = (seed ^ Math.imul(Math.floor(seed / 2 ** 32), 0x9e3779b9)) >>> 0;
  for (let i = 0; i < 4; i++) {
    word = (word + 0x9e3779b9) >>> 0;
    let mixed = Math.imul(word ^ (word >>> 16), 0x85ebca6b);
    mixed = Math.imul(mixed ^ (mixed >>> 13), 0xc2b2ae35);
    state[i] = (mixed ^ (mixed >>> 16)) >>> 0;
  }
  return state;
}

// A seed -> the random numbers of a run. Every part of the trainer draws from its own stream, so that turning the filter on
// or measuring more often changes nothing about which prompts come.

/** Seeded random numbers: mulberry32 (Tommy Ettinger). Small, fast, and good enough to sample tokens with. */
export class Random {
  #state: number;

  /** @param stream which of the run's streams, for example 'prompts' */
  constructor(seed: number, stream: string) {
    // FNV-1a over seed and name, so that streams of one seed, and one stream of several seeds, have nothing in common.
    let hash = 2166136261;
    for (const letter of `${seed}/${stream}`) hash = Math.imul(hash ^ letter.charCodeAt(0), 16777619);
    this.#state = hash | 0;
  }

  /** Uniform in [0, 1). */
  uniform(): number {
    this.#state = (this.#state + 0x6d2b79f5) | 0;
    let z = Math.imul(this.#state ^ (this.#state >>> 15), this.#state | 1);
    z ^= z + Math.imul(z ^ (z >>> 7), z | 61);
    return ((z ^ (z >>> 14)) >>> 0) / 2 ** 32;
  }

  /** A whole number from 0 to `count` − 1. */
  below(count: number): number {
    return Math.floor(this.uniform() * count);
  }

  pick<Item>(items: readonly Item[]): Item {
    const item = items[this.below(items.length)];
    if (item === undefined) throw new RangeError('nothing to pick from');
    return item;
  }

  /** Standard normal: Box and Muller. */
  normal(): number {
    return Math.sqrt(-2 * Math.log(1 - this.uniform())) * Math.cos(2 * Math.PI * this.uniform());
  }

  /** An index drawn with probability exp(logprobs[start + index]), index < count. */
  categorical(logprobs: Float32Array, start: number, count: number): number {
    let left = this.uniform();
    for (let index = 0; index < count - 1; index++) {
      left -= Math.exp(logprobs[start + index] as number);
      if (left < 0) return index;
    }
    return count - 1; // what rounding left over
  }
}

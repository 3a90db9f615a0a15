// Estimates quantiles of finite doubles within a fixed relative error. A value's bucket follows from its bits only, so
// sketches merge by adding counts: associative and commutative to the bit.

/** Buckets a power of two: their width is at most 2^−8 (0.4%) of the values in them. */
const BUCKET_BITS = 8;

const bits = new DataView(new ArrayBuffer(8));

/** Number of the bucket that `value` belongs to; larger values have no smaller number. */
function bucketOf(value: number): number {
  bits.setFloat64(0, value);
  const high = bits.getUint32(0);
  const magnitude = (high & 0x7fffffff) >>> (20 - BUCKET_BITS);
  return high >>> 31 === 0 ? magnitude : -magnitude - 1;
}

/** Its own extremes make a bucket exact if it holds one or two different values, as buckets of short runs do. */
interface Bucket {
  count: number;
  least: number;
  most: number;
}

export class QuantileSketch {
  readonly #buckets = new Map<number, Bucket>();
  #count = 0;

  get count(): number {
    return this.#count;
  }

  /** @param value finite */
  add(value: number): void {
    // −0 is 0.
    this.#take(value + 0, value + 0, 1);
  }

  merge(other: QuantileSketch): void {
    for (const { count, least, most } of other.#buckets.values()) this.#take(least, most, count);
  }

  #take(least: number, most: number, count: number): void {
    this.#count += count;
    const number = bucketOf(least);
    const bucket = this.#buckets.get(number);
    if (bucket === undefined) {
      this.#buckets.set(number, { count, least, most });
      return;
    }
    bucket.count += count;
    if (least < bucket.least) bucket.least = least;
    if (most > bucket.most) bucket.most = most;
  }

  #sorted(): Bucket[] {
    return [...this.#buckets.values()].sort((a, b) => a.least - b.least);
  }

  /**
   * Quantiles by linear interpolation between the two nearest values (type 7, numpy's default). Each of the two is off
   * by less than 2^−8 of itself; exact if its bucket holds no third value.
   * @param shares in [0, 1], rising
   * @returns a value a share; NaN if nothing was added
   */
  quantiles(shares: readonly number[]): number[] {
    const buckets = this.#sorted();
    let bucket = 0;
    let before = 0;
    const valueAt = (rank: number): number => {
      // Ranks rise, so that one pass over the buckets answers all.
      while (rank >= before + (buckets[bucket] as Bucket).count) before += (buckets[bucket++] as Bucket).count;
      const { count, least, most } = buckets[bucket] as Bucket;
      return mix(least, most, count === 1 ? 0 : (rank - before) / (count - 1));
    };
    let last = -1;
    let lower = 0;
    let upper = 0;
    return shares.map((share) => {
      if (this.#count === 0) return Number.NaN;
      const position = share * (this.#count - 1);
      const rank = Math.floor(position);
      if (rank !== last) {
        lower = rank === last + 1 && last >= 0 ? upper : valueAt(rank);
        upper = rank + 1 < this.#count ? valueAt(rank + 1) : lower;
        last = rank;
      }
      return mix(lower, upper, position - rank);
    });
  }
}

/** From `a` to `b`; the ends exactly, and no overflow between. */
function mix(a: number, b: number, share: number): number {
  if (share === 0 || a === b) return a;
  if (share === 1) return b;
  return a * (1 - share) + b * share;
}

// Packs the numbers of shards into index lists of array jobs, in as many arrays as a cluster's limits require.

/** One array job: shard = offset + index. */
export interface ShardArray {
  readonly offset: number;
  /** As Slurm writes it: 0-3,7,9-12. */
  readonly indices: string;
  readonly tasks: number;
}

/** A word of a command has at most 128 KiB on Linux (MAX_ARG_STRLEN); a list of single shards can be longer. */
const LONGEST = 100_000;

/**
 * @param shards in rising order
 * @param size indices are below this: Slurm's MaxArraySize
 */
export function shardArrays(shards: readonly number[], size: number): ShardArray[] {
  const arrays: ShardArray[] = [];
  let at = 0;
  while (at < shards.length) {
    const offset = Math.floor((shards[at] as number) / size) * size;
    const ranges: string[] = [];
    let length = 0;
    const from = at;
    while (at < shards.length && (shards[at] as number) < offset + size && length < LONGEST) {
      const first = (shards[at] as number) - offset;
      let last = first;
      for (at++; at < shards.length && (shards[at] as number) === offset + last + 1 && last + 1 < size; at++) last++;
      const range = last === first ? `${first}` : `${first}-${last}`;
      ranges.push(range);
      length += range.length + 1;
    }
    arrays.push({ offset, indices: ranges.join(','), tasks: at - from });
  }
  return arrays;
}

/** Shards of one source, at most. */
export const MOST_SHARDS = 1e7;

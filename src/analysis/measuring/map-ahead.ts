// Maps items to results in the items' order, while the next few are already being worked on.

/** How much may be under way at a time. */
export interface AheadLimits<Item> {
  /** Items beyond the one whose result is awaited. */
  readonly ahead: number;
  /**
   * Bytes that an item needs while it is under way; together at most `capacity`, unless there is only one. Default 0.
   */
  readonly weight?: ((item: Item) => number) | undefined;
  readonly capacity?: number | undefined;
}

/**
 * Calls `work` for each item, within the limits, and gives the results in order. No item is asked for before there is
 * room for it, and no result waits for an item that is not there yet. The first failure of `work` ends it; one of the
 * source does after the results of the items before. When it ends early, what is under way is waited for (make it end
 * by an AbortSignal) and dropped.
 * @param limits items ahead, or more limits
 */
export async function* mapAhead<Item, Result>(
  items: Iterable<Item> | AsyncIterable<Item>,
  limits: number | AheadLimits<Item>,
  work: (item: Item) => Promise<Result>,
  stop: () => void,
): AsyncGenerator<Result, void, undefined> {
  const { ahead, weight = () => 0, capacity = 0 } = typeof limits === 'number' ? { ahead: limits } : limits;
  const isAsync = Symbol.asyncIterator in items;
  const source = isAsync ? items[Symbol.asyncIterator]() : items[Symbol.iterator]();
  const underWay: { result: Promise<Result>; bytes: number }[] = [];
  let bytes = 0;
  /** An item that has come, and waits for room. */
  let waiting: { item: Item; bytes: number } | undefined;
  let coming: Promise<void> | undefined;
  let isEnd = false;
  let failure: { reason: unknown } | undefined;

  const take = ({ done, value }: IteratorResult<Item>): void => {
    coming = undefined;
    if (done) isEnd = true;
    else waiting = { item: value, bytes: weight(value) };
  };
  /** What has come before it still gives its results. */
  const fail = (reason: unknown): void => {
    coming = undefined;
    isEnd = true;
    failure = { reason };
  };
  /** @returns whether there was an item, and room for it */
  const begin = (): boolean => {
    if (waiting === undefined) return false;
    if (underWay.length > 0 && waiting.bytes > 0 && bytes + waiting.bytes > capacity) return false;
    const result = work(waiting.item);
    // Looked at in its turn; until then a failure is not unhandled.
    result.catch(() => undefined);
    underWay.push({ result, bytes: waiting.bytes });
    bytes += waiting.bytes;
    waiting = undefined;
    return true;
  };

  try {
    for (;;) {
      while (!isEnd && coming === undefined && underWay.length <= ahead) {
        if (waiting === undefined) {
          const next = source.next();
          if (isAsync) coming = Promise.resolve(next).then(take, fail);
          else take(next as IteratorResult<Item>);
        }
        if (!begin()) break;
      }
      const first = underWay[0];
      if (first === undefined) {
        if (coming === undefined) break;
        await coming;
        continue;
      }
      // A slow source must not hold back what is ready.
      if (coming !== undefined && (await isFirst(coming, first.result))) continue;
      const result = await first.result;
      underWay.shift();
      bytes -= first.bytes;
      yield result;
    }
    if (failure !== undefined) throw failure.reason;
  } finally {
    stop();
    await Promise.allSettled(underWay.map(({ result }) => result));
    // A source that has been asked and does not answer may keep its end for itself.
    const ending = isEnd ? undefined : source.return?.();
    if (coming === undefined) await ending;
    else Promise.resolve(ending).catch(() => undefined);
  }
}

/** Whether `one` is there before `other` is there or has failed. */
async function isFirst(one: Promise<void>, other: Promise<unknown>): Promise<boolean> {
  return Promise.race([
    one.then(() => true),
    other.then(
      () => false,
      () => false,
    ),
  ]);
}

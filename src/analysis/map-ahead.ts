// Items -> results in the items' order, while the next few are already being worked on.

/**
 * Calls `work` for each item, at most `ahead` items beyond the one that is awaited, and gives the results in order.
 * The first failure ends it. When it ends early, what is under way is waited for (make it end by an AbortSignal) and dropped.
 */
export async function* mapAhead<Item, Result>(
  items: readonly Item[],
  ahead: number,
  work: (item: Item) => Promise<Result>,
  stop: () => void,
): AsyncGenerator<Result, void, undefined> {
  const underWay: Promise<Result>[] = [];
  let next = 0;
  try {
    for (;;) {
      while (next < items.length && underWay.length <= ahead) {
        const result = work(items[next++] as Item);
        // Looked at in its turn; until then a failure is not unhandled.
        result.catch(() => undefined);
        underWay.push(result);
      }
      const first = underWay.shift();
      if (first === undefined) return;
      yield await first;
    }
  } finally {
    stop();
    await Promise.allSettled(underWay);
  }
}

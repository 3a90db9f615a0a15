// Which tokens of one row have come: disjoint spans in rising order, flat as [from, to, from, to, …], neighbours merged.

export type TokenSpans = number[];

/** Index of the first span that ends after `token`, counted in spans. */
function firstEndingAfter(spans: TokenSpans, token: number): number {
  let low = 0;
  let high = spans.length / 2;
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((spans[2 * middle + 1] as number) > token) high = middle;
    else low = middle + 1;
  }
  return low;
}

/** The first token of [from, to) that is in a span; undefined if none is. */
export function firstCommon(spans: TokenSpans, from: number, to: number): number | undefined {
  const begin = spans[2 * firstEndingAfter(spans, from)];
  return begin !== undefined && begin < to ? Math.max(begin, from) : undefined;
}

/** Adds [from, to), of which nothing is there yet. */
export function addSpan(spans: TokenSpans, from: number, to: number): void {
  const at = 2 * firstEndingAfter(spans, from);
  const joinsBefore = at > 0 && spans[at - 1] === from;
  const joinsAfter = spans[at] === to;
  if (joinsBefore && joinsAfter) spans.splice(at - 1, 2);
  else if (joinsBefore) spans[at - 1] = to;
  else if (joinsAfter) spans[at] = from;
  else spans.splice(at, 0, from, to);
}

/** Takes out [from, to), all of which stands in one span. */
export function removeSpan(spans: TokenSpans, from: number, to: number): void {
  const at = 2 * firstEndingAfter(spans, from);
  const [begin, end] = [spans[at] as number, spans[at + 1] as number];
  const rest: number[] = [];
  if (begin < from) rest.push(begin, from);
  if (to < end) rest.push(to, end);
  spans.splice(at, 2, ...rest);
}

/** The first run of [0, length) that is in no span; undefined if all of it is. */
export function firstGap(spans: TokenSpans, length: number): { from: number; to: number } | undefined {
  const from = spans[0] === 0 ? (spans[1] as number) : 0;
  if (from >= length) return undefined;
  return { from, to: spans[2 * firstEndingAfter(spans, from)] ?? length };
}

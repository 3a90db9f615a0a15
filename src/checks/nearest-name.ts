// The name that was probably meant.

/** @returns the known name that the fewest changes of letters make of it; undefined if none is near */
export function nearestName(name: string, known: Iterable<string>): string | undefined {
  let best: { name: string; changes: number } | undefined;
  for (const other of known) {
    const changes = changesBetween(name.toLowerCase(), other.toLowerCase());
    if (changes < (best?.changes ?? Number.POSITIVE_INFINITY)) best = { name: other, changes };
  }
  return best !== undefined && best.changes <= Math.max(1, Math.floor(name.length / 3)) ? best.name : undefined;
}

/** Letters put in, left out or replaced. */
function changesBetween(one: string, other: string): number {
  if (Math.abs(one.length - other.length) > one.length) return one.length + other.length;
  let before = Array.from({ length: other.length + 1 }, (_, at) => at);
  for (let row = 1; row <= one.length; row++) {
    const now = [row];
    for (let at = 1; at <= other.length; at++) {
      const replaced = (before[at - 1] as number) + (one[row - 1] === other[at - 1] ? 0 : 1);
      now.push(Math.min(replaced, (before[at] as number) + 1, (now[at - 1] as number) + 1));
    }
    before = now;
  }
  return before[other.length] as number;
}

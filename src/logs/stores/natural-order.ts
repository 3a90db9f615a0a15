// Orders names as people count: step_9 before step_10. By code units, not by locale: the same everywhere.

const ZERO = 0x30;
const NINE = 0x39;

/**
 * Negative, zero or positive as `a` comes before, with or after `b`; zero only for equal strings. A name is taken as
 * runs of digits and of the rest. Compared in place, without making strings of the runs: the names of a large folder
 * are sorted in one go, and nothing else happens meanwhile.
 */
export function naturalOrder(a: string, b: string): number {
  if (a === b) return 0;
  let atA = partingRun(a, b);
  let atB = atA;
  while (atA < a.length && atB < b.length) {
    const endA = endOfRun(a, atA);
    const endB = endOfRun(b, atB);
    const order =
      isDigit(a, atA) && isDigit(b, atB)
        ? compareNumbers(a, atA, endA, b, atB, endB)
        : compareUnits(a, atA, endA, b, atB, endB);
    if (order !== 0) return order;
    atA = endA;
    atB = endB;
  }
  if (atA < a.length) return 1;
  if (atB < b.length) return -1;
  // They differ in zeros before a number.
  return a < b ? -1 : 1;
}

/** Where the last run begins that starts within what both have in common: names of one folder have most of it. */
function partingRun(a: string, b: string): number {
  const shorter = Math.min(a.length, b.length);
  let at = 0;
  while (at < shorter && a.charCodeAt(at) === b.charCodeAt(at)) at++;
  if (at === 0) return 0;
  const digits = isDigit(a, --at);
  while (at > 0 && isDigit(a, at - 1) === digits) at--;
  return at;
}

function isDigit(text: string, at: number): boolean {
  const code = text.charCodeAt(at);
  return code >= ZERO && code <= NINE;
}

function endOfRun(text: string, from: number): number {
  const digits = isDigit(text, from);
  let end = from + 1;
  while (end < text.length && isDigit(text, end) === digits) end++;
  return end;
}

/** By value, of any length. */
function compareNumbers(a: string, fromA: number, endA: number, b: string, fromB: number, endB: number): number {
  let atA = fromA;
  let atB = fromB;
  while (atA < endA && a.charCodeAt(atA) === ZERO) atA++;
  while (atB < endB && b.charCodeAt(atB) === ZERO) atB++;
  return endA - atA - (endB - atB) || compareUnits(a, atA, endA, b, atB, endB);
}

function compareUnits(a: string, fromA: number, endA: number, b: string, fromB: number, endB: number): number {
  const shorter = Math.min(endA - fromA, endB - fromB);
  for (let at = 0; at < shorter; at++) {
    const order = a.charCodeAt(fromA + at) - b.charCodeAt(fromB + at);
    if (order !== 0) return order;
  }
  return endA - fromA - (endB - fromB);
}

// Whole powers that are the same bits on every version of Node.

/**
 * base^exponent by products only. `**` and Math.pow round differently from one version of Node to another, and the
 * results of a run do not depend on which of them computed it.
 * @param exponent a whole number, not negative
 */
export function wholePower(base: number, exponent: number): number {
  let power = 1;
  let square = base;
  for (let left = exponent; left > 0; left = Math.floor(left / 2)) {
    if (left % 2 === 1) power *= square;
    square *= square;
  }
  return power;
}

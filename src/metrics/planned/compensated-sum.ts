// Numbers in a given order -> their sum, with its rounding carried along (Neumaier 1974).
export function compensatedSum(values: Iterable<number>): number {
  let sum = 0;
  let carry = 0;
  for (const value of values) {
    const next = sum + value;
    carry += Math.abs(sum) >= Math.abs(value) ? sum - next + value : value - next + sum;
    sum = next;
  }
  return Number.isFinite(sum) ? sum + carry : sum;
}

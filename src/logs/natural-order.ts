// Orders names as people count: step_9 before step_10. By code units, not by locale: the same everywhere.

/** Negative, zero or positive as `a` comes before, with or after `b`; zero only for equal strings. */
export function naturalOrder(a: string, b: string): number {
  if (a === b) return 0;
  const left = a.match(/[0-9]+|[^0-9]+/g) ?? [];
  const right = b.match(/[0-9]+|[^0-9]+/g) ?? [];
  for (let i = 0; i < Math.min(left.length, right.length); i++) {
    const order = comparePieces(left[i] as string, right[i] as string);
    if (order !== 0) return order;
  }
  return left.length - right.length || byCodeUnits(a, b);
}

function comparePieces(a: string, b: string): number {
  if (!/^[0-9]/.test(a) || !/^[0-9]/.test(b)) return byCodeUnits(a, b);
  const left = a.replace(/^0+/, '');
  const right = b.replace(/^0+/, '');
  return left.length - right.length || byCodeUnits(left, right);
}

function byCodeUnits(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}

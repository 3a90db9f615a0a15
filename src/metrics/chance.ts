// What retrieval would score by luck (metrics.md §3 and its repair 4).

/** Mean over rows of (columns sharing the row's signature) / P. */
export function chanceLevel(own: Int32Array, signatures: Int32Array, counts: Int32Array): number {
  let total = 0;
  for (const column of own) total += counts[signatures[column] as number] as number;
  return total / (own.length * signatures.length);
}

/** P(k columns drawn without replacement hold one of c equivalent ones among P) = 1 − C(P−c, k) / C(P, k). */
export function exactChance(columns: number, equivalent: number, k: number): number {
  let miss = 1;
  for (let i = 0; i < k; i++) miss *= Math.max(0, columns - equivalent - i) / (columns - i);
  return 1 - miss;
}

/** Mean over rows of the exact chance of a hit in the top k; rows are counted by kind first, so their order does not matter. */
export function exactChanceLevel(own: Int32Array, signatures: Int32Array, counts: Int32Array, k: number): number {
  const rowsBySize = new Map<number, number>();
  for (const column of own) {
    const equivalent = counts[signatures[column] as number] as number;
    rowsBySize.set(equivalent, (rowsBySize.get(equivalent) ?? 0) + 1);
  }
  let total = 0;
  for (const [equivalent, rows] of [...rowsBySize].sort((a, b) => a[0] - b[0])) {
    total += rows * exactChance(signatures.length, equivalent, k);
  }
  return total / own.length;
}

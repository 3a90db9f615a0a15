// Computes what retrieval would score by chance (docs/reference/metrics.md): it depends only on how many rows have how
// many columns that count as theirs.

/** [c] rows whose own column is one of c with the same signature. @param counts columns of each signature */
export function rowsByEquivalents(own: Int32Array, signatures: Int32Array, counts: Int32Array): Int32Array {
  const rows = new Int32Array(signatures.length + 1);
  for (let row = 0; row < own.length; row++) {
    const equivalent = counts[signatures[own[row] as number] as number] as number;
    rows[equivalent] = (rows[equivalent] as number) + 1;
  }
  return rows;
}

/** Mean over rows of (columns sharing the row's signature) / P. @param rows as rowsByEquivalents() gives them */
export function chanceLevel(rows: Int32Array): number {
  let total = 0;
  let count = 0;
  for (let equivalent = 1; equivalent < rows.length; equivalent++) {
    total += equivalent * (rows[equivalent] as number);
    count += rows[equivalent] as number;
  }
  return total / (count * (rows.length - 1));
}

/** P(k columns drawn without replacement hold one of c equivalent ones among P) = 1 − C(P−c, k) / C(P, k). */
function exactChance(columns: number, equivalent: number, k: number): number {
  let miss = 1;
  for (let i = 0; i < k; i++) miss *= Math.max(0, columns - equivalent - i) / (columns - i);
  return 1 - miss;
}

/** Mean over rows of the exact chance of a hit in the top k. @param rows as rowsByEquivalents() gives them */
export function exactChanceLevel(rows: Int32Array, k: number): number {
  let total = 0;
  let count = 0;
  for (let equivalent = 1; equivalent < rows.length; equivalent++) {
    const alike = rows[equivalent] as number;
    if (alike === 0) continue;
    total += alike * exactChance(rows.length - 1, equivalent, k);
    count += alike;
  }
  return total / count;
}

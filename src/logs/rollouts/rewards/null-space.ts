// Finds the combinations of a few columns that vanish in all rows: rows enter a triangle one by one (Givens rotations),
// whose singular vectors (one-sided Jacobi rotations) are those of all rows. Both are backward stable.

/** Directions in the space of columns, each of length 1, the most vanishing first. */
export interface Directions {
  /** Length of what the rows have of each. */
  readonly sizes: readonly number[];
  readonly vectors: readonly (readonly number[])[];
}

/** Stands for the rows that it was given: their lengths and angles as columns. */
export class Triangle {
  readonly #rows: Float64Array[];
  count = 0;

  constructor(private readonly columns: number) {
    this.#rows = Array.from({ length: columns }, () => new Float64Array(columns));
  }

  add(values: ArrayLike<number>): void {
    const row = Float64Array.from(values);
    this.count++;
    for (let at = 0; at < this.columns; at++) {
      const below = row[at] as number;
      if (below === 0) continue;
      const own = this.#rows[at] as Float64Array;
      const length = Math.hypot(own[at] as number, below);
      const [cos, sin] = [(own[at] as number) / length, below / length];
      for (let column = at; column < this.columns; column++) {
        const [a, b] = [own[column] as number, row[column] as number];
        own[column] = cos * a + sin * b;
        row[column] = cos * b - sin * a;
      }
    }
  }

  lengthOf(column: number): number {
    return Math.hypot(...this.#rows.map((row) => row[column] as number));
  }

  /** Of these columns, each divided by its scale. */
  directions(columns: readonly number[], scales: readonly number[]): Directions {
    const size = columns.length;
    const vectors = columns.map((column, at) =>
      Float64Array.from(this.#rows, (row) => (row[column] as number) / (scales[at] as number)),
    );
    const turns = columns.map((_, at) => Float64Array.from({ length: size }, (__, other) => (at === other ? 1 : 0)));
    for (let sweep = 0; sweep < MOST_SWEEPS; sweep++) {
      let isDone = true;
      for (let one = 0; one < size; one++) {
        for (let other = one + 1; other < size; other++) {
          if (rotate(vectors, turns, one, other)) isDone = false;
        }
      }
      if (isDone) break;
    }
    const order = vectors.map((vector, at) => ({ size: Math.hypot(...vector), at })).sort((a, b) => a.size - b.size);
    return { sizes: order.map((one) => one.size), vectors: order.map(({ at }) => [...(turns[at] as Float64Array)]) };
  }
}

const MOST_SWEEPS = 60;

/** Makes two vectors orthogonal. @returns whether they were not */
function rotate(vectors: Float64Array[], turns: Float64Array[], one: number, other: number): boolean {
  const [a, b] = [vectors[one] as Float64Array, vectors[other] as Float64Array];
  const [aa, bb, ab] = [dot(a, a), dot(b, b), dot(a, b)];
  if (Math.abs(ab) <= Number.EPSILON * Math.sqrt(aa * bb)) return false;
  const half = (bb - aa) / (2 * ab);
  const tan = (half >= 0 ? 1 : -1) / (Math.abs(half) + Math.sqrt(1 + half * half));
  const cos = 1 / Math.sqrt(1 + tan * tan);
  for (const [left, right] of [
    [a, b],
    [turns[one] as Float64Array, turns[other] as Float64Array],
  ] as const) {
    for (let at = 0; at < left.length; at++) {
      const [x, y] = [left[at] as number, right[at] as number];
      left[at] = cos * x - cos * tan * y;
      right[at] = cos * tan * x + cos * y;
    }
  }
  return true;
}

export function dot(a: ArrayLike<number>, b: ArrayLike<number>): number {
  let sum = 0;
  for (let at = 0; at < a.length; at++) sum += (a[at] as number) * (b[at] as number);
  return sum;
}

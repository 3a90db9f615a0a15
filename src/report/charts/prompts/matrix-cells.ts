// Orders the cells of a matrix of prompts so that a collapse shows, and picks the matrices that show a run's course.
import { float16Value } from '../../../engine/tensor/float16-array.js';
import type { Matrix, RunData } from '../../report.js';

export type CellKind = 'posterior' | 'nats';

export interface Cells {
  readonly size: number;
  readonly ids: readonly string[];
  /** Row-major, in the order of `ids`. */
  readonly values: Float32Array;
}

/** Measure of how well the reasoning about a prompt fits it. */
type Own = Pick<Matrix, 'ids' | 'posterior'>;

/** Places of a matrix's prompts: those that its reasoning fitted best at the start come first. */
export function orderOf(matrix: Own, start: Own): number[] {
  const own = (of: Own, at: number): number => of.posterior[at * of.ids.length + at] ?? 0;
  const atStart = new Map(start.ids.map((id, at) => [id, own(start, at)]));
  // Where prompts do not recur there is no order of the start: each step has its own.
  const recurs = matrix.ids.every((id) => atStart.has(id));
  const value = (at: number): number => (recurs ? (atStart.get(matrix.ids[at] as string) as number) : own(matrix, at));
  return matrix.ids.map((_, at) => at).sort((a, b) => value(b) - value(a) || a - b);
}

export function cellsOf(matrix: Matrix, start: Matrix, kind: CellKind): Cells {
  const size = matrix.ids.length;
  const order = orderOf(matrix, start);
  const values = new Float32Array(size * size);
  for (const [row, from] of order.entries()) {
    for (const [column, other] of order.entries()) {
      const at = from * size + other;
      values[row * size + column] =
        kind === 'posterior' ? (matrix.posterior[at] as number) / 255 : float16Value(matrix.nats[at] as number);
    }
  }
  return { size, ids: order.map((at) => matrix.ids[at] as string), values };
}

export interface Still {
  readonly title: string;
  readonly matrix: Matrix;
}

/** The matrix of the step nearest to this one. */
export function matrixAt({ matrices }: RunData, step: number): Matrix | undefined {
  return matrices.toSorted((a, b) => Math.abs(a.step - step) - Math.abs(b.step - step) || a.step - b.step)[0];
}

/** Start, peak of MI, where the most severe alarm begins, now; each step once. */
export function stillsOf(run: RunData): Still[] {
  const { steps, figures, head } = run;
  const mi = figures.mi ?? new Float32Array();
  const peak = mi.reduce((best, value, at) => (value > (mi[best] ?? Number.NEGATIVE_INFINITY) ? at : best), -1);
  const wanted: [string, number | undefined | null][] = [
    ['start', steps[0]],
    ['peak MI', steps[peak]],
    ['since', head.status.since],
    ['now', steps.at(-1)],
  ];
  const found = new Map<number, Still>();
  for (const [title, step] of wanted) {
    if (step === undefined || step === null) continue;
    const matrix = matrixAt(run, step);
    if (matrix === undefined) continue;
    // One that comes twice gets its later name: `now` says more than `since`.
    const before = found.get(matrix.step);
    found.set(matrix.step, { title: before?.title === 'start' ? 'start' : title, matrix });
  }
  return [...found.values()].sort((a, b) => a.matrix.step - b.matrix.step);
}

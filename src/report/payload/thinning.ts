// Thins a report that is too large for one file, and says what is missing: steps are merged, steps of prompts and
// matrices are left out.
import type { Matrix, PromptTable, Report, RunData, Stretch } from '../report.js';

/** How much of each is kept. */
export interface Thinning {
  readonly steps: number;
  readonly promptSteps: number;
  readonly matrices: number;
  /** Steps of which rollouts are kept. */
  readonly texts: number;
}

/** What is given up first costs the least to look at. */
export const THINNINGS: readonly [Thinning, ...Thinning[]] = [
  { steps: Number.POSITIVE_INFINITY, promptSteps: 200, matrices: 200, texts: 60 },
  { steps: Number.POSITIVE_INFINITY, promptSteps: 100, matrices: 60, texts: 30 },
  { steps: 2000, promptSteps: 100, matrices: 60, texts: 20 },
  { steps: 2000, promptSteps: 50, matrices: 20, texts: 10 },
  { steps: 1000, promptSteps: 20, matrices: 8, texts: 6 },
  { steps: 500, promptSteps: 10, matrices: 4, texts: 3 },
  { steps: 200, promptSteps: 4, matrices: 4, texts: 2 },
];

/** Figures whose range within a bucket is drawn where they have no interval that shows it. */
const RANGED = ['mi', 'entropy', 'retrieval', 'reward'];

export function thinned(report: Report, to: Thinning): Report {
  const lost = new Set<string>(report.head.thinned);
  const runs = report.runs.map((run) => {
    const { steps, prompts, matrices, texts } = run;
    const { verdicts } = run.head;
    if (steps.length > to.steps)
      lost.add(
        `${run.head.name}: ${steps.length} steps are drawn together to ${to.steps} means; intervals are the outermost ones.`,
      );
    const drawn = steps.length > to.steps ? drawnTogether(run, to.steps) : run;
    const kept = prompts && keptSteps([...new Set(prompts.step)], to.promptSteps, verdicts);
    if (prompts !== undefined && kept !== undefined && kept.size < new Set(prompts.step).size)
      lost.add(`${run.head.name}: prompts are shown of ${kept.size} of ${new Set(prompts.step).size} steps.`);
    const shown = keptSteps(
      matrices.map(({ step }) => step),
      to.matrices,
      verdicts,
    );
    if (shown.size < matrices.length)
      lost.add(`${run.head.name}: heat maps are kept of ${shown.size} of ${matrices.length} steps.`);
    const read = keptSteps(
      texts.map(({ step }) => step),
      to.texts,
      verdicts,
    );
    if (read.size < texts.length)
      lost.add(`${run.head.name}: rollouts are kept of ${read.size} of ${texts.length} steps.`);
    return {
      ...drawn,
      texts: texts.filter(({ step }) => read.has(step)),
      prompts: prompts && kept && promptsOf(prompts, kept),
      matrices: matrices.filter(({ step }) => shown.has(step)),
    };
  });
  return { head: { ...report.head, thinned: [...lost] }, runs };
}

/**
 * As many buckets of steps, equally full to one step.
 * Means of figures; the least of lower and the largest of upper bounds and p-values; the last state.
 */
export function drawnTogether(run: RunData, buckets: number): RunData {
  const { length } = run.steps;
  const edges = Array.from({ length: buckets + 1 }, (_, at) => Math.round((at * length) / buckets));
  const reduce = (column: ArrayLike<number>, by: (values: number[]) => number): Float32Array =>
    Float32Array.from({ length: buckets }, (_, at) => {
      const values: number[] = [];
      for (let place = edges[at] as number; place < (edges[at + 1] as number); place++) {
        const value = column[place] as number;
        if (!Number.isNaN(value)) values.push(value);
      }
      return values.length === 0 ? Number.NaN : by(values);
    });
  const figures: Record<string, Float32Array> = {};
  for (const [name, column] of Object.entries(run.figures)) {
    const isLower = /_(low|least)$/.test(name);
    const isUpper = /_(high|p|most)$/.test(name);
    figures[name] = reduce(column, isLower ? least : isUpper ? most : mean);
    if (!RANGED.includes(name)) continue;
    figures[`${name}_least`] = reduce(run.figures[`${name}_least`] ?? column, least);
    figures[`${name}_most`] = reduce(run.figures[`${name}_most`] ?? column, most);
  }
  const lastOf = (at: number): number => (edges[at + 1] as number) - 1;
  const { measured } = run.figures;
  const lastMeasuredOf = (at: number): number => {
    let place = lastOf(at);
    while (measured?.[place] === 0 && place > (edges[at] as number)) place--;
    return place;
  };
  return {
    ...run,
    figures,
    steps: Float64Array.from({ length: buckets }, (_, at) => run.steps[lastOf(at)] as number),
    regimes: Uint8Array.from({ length: buckets }, (_, at) => run.regimes[lastMeasuredOf(at)] as number),
  };
}

const least = (values: number[]): number => values.reduce((a, b) => Math.min(a, b));
const most = (values: number[]): number => values.reduce((a, b) => Math.max(a, b));
const mean = (values: number[]): number => values.reduce((a, b) => a + b) / values.length;

/** First and last, the two steps about each verdict, and the rest evenly. */
export function keptSteps(
  steps: readonly number[],
  count: number,
  verdicts: readonly Pick<Stretch, 'since' | 'severity'>[],
): Set<number> {
  if (steps.length <= count) return new Set(steps);
  const sorted = [...steps].sort((a, b) => a - b);
  const kept = new Set<number>([sorted[0] as number, sorted.at(-1) as number]);
  for (const { since, severity } of verdicts) {
    const at = sorted.findIndex((step) => step >= since);
    if (at >= 0 && severity !== 'info' && kept.size < count) kept.add(sorted[at] as number);
  }
  for (let at = 0; kept.size < count && at < count; at++)
    kept.add(sorted[Math.round((at * (sorted.length - 1)) / (count - 1))] as number);
  return kept;
}

function promptsOf(table: PromptTable, steps: ReadonlySet<number>): PromptTable {
  const columns = Object.entries(table).map(([name, column]) => [
    name,
    Array.isArray(column)
      ? column
      : (column as Float32Array).filter((_: number, at: number) => steps.has(table.step[at] as number)),
  ]);
  return Object.fromEntries(columns) as PromptTable;
}

/** More prompts than a screen has room for. */
export const MOST_SHOWN = 64;

/** Those with the most and the fewest nats under their own prompt, half each, in the matrix's order. */
export function cutMatrix(matrix: Matrix, most = MOST_SHOWN): Matrix {
  const size = matrix.ids.length;
  if (size <= most) return matrix;
  const own = Array.from({ length: size }, (_, at) => matrix.posterior[at * size + at] as number);
  const ranked = own.map((_, at) => at).sort((a, b) => (own[b] as number) - (own[a] as number) || a - b);
  const chosen = [...ranked.slice(0, Math.ceil(most / 2)), ...ranked.slice(size - Math.floor(most / 2))].sort(
    (a, b) => a - b,
  );
  const cells = chosen.flatMap((row) => chosen.map((column) => row * size + column));
  return {
    ...matrix,
    ids: chosen.map((at) => matrix.ids[at] as string),
    posterior: Uint8Array.from(cells, (cell) => matrix.posterior[cell] as number),
    nats: Uint16Array.from(cells, (cell) => matrix.nats[cell] as number),
  };
}

// Splits MI of a batch of several environments into a part between environments and a part within them, and measures
// each environment as a batch of its own.
import type { RowEnvironments } from '../../checks/row-environments.js';
import { rowsByEnvironment } from '../../checks/row-environments.js';
import type { Engine } from '../../engine/engine.js';
import type { Tensor } from '../../engine/tensor/tensor.js';
import { type Columns, renumber } from '../columns.js';
import type { MetricOptions } from '../cross-scores.js';
import type { WITHIN_FIGURES } from '../figures/beside-figures.js';
import type { CheckedScores } from '../metric-arguments.js';
import type { RowSelection } from '../sampling/row-selection.js';
import { lengthsOf, measure, type ScoredStep } from '../scored-step.js';
import type { StepMetrics } from '../step-metrics.js';
import { type EnvironmentFigures, namedEnvironments, sharedPermutations } from './environment-figures.js';

/** Environment of each canonical column; −1 for a prompt without rows, which nothing names one of. */
export function environmentOfColumns({ own, order }: Columns, { ofRow }: RowEnvironments): Int32Array {
  const found = new Int32Array(order.length).fill(-1);
  for (let row = 0; row < own.length; row++) found[own[row] as number] = ofRow[row] as number;
  return found;
}

/** Nats. `mi_within` + `mi_between` is `mi_seq_estimate`. */
export type ChainRule = Readonly<Record<(typeof WITHIN_FIGURES)[number]['key'], number>>;

/**
 * The chain rule I(X;Z) = I(E;Z) + I(X;Z|E), both parts computed: means over rows of S_own − logsumexp over the columns of
 * the row's environment + ln of their number, and of the rest.
 * @param environments of the rows and of the columns of `measured`; a column that is of none has −1
 */
export async function chainRule(
  engine: Engine,
  measured: ScoredStep,
  { names, ofRow, ofColumn }: RowEnvironments & { readonly ofColumn: Int32Array },
  signal: AbortSignal | undefined,
): Promise<ChainRule> {
  const within = new NeumaierSum();
  const between = new NeumaierSum();
  const { matchedSeq, marginalSeq } = measured.stats;
  for (const [environment, rows] of rowsByEnvironment({ names, ofRow }).entries()) {
    if (rows.length === 0) continue;
    const kept = indicesOf(ofColumn, (of) => of === environment);
    const marginals = await marginalsAmong(engine, measured, rows, kept, signal);
    for (const [at, row] of rows.entries()) {
      const own = matchedSeq[row] as number;
      const marginal = marginals === undefined ? own : (marginals[at] as number);
      within.add(own - marginal);
      between.add(marginal - (marginalSeq[row] as number));
    }
  }
  return { mi_within: within.total / ofRow.length, mi_between: between.total / ofRow.length };
}

/** The environments of a step as those of the rows and columns of what was measured of it. */
export function environmentsOf(
  { names, ofRow }: RowEnvironments,
  selection: RowSelection,
  columns: Columns,
): RowEnvironments & { readonly ofColumn: Int32Array } {
  const all = environmentOfColumns(columns, { names, ofRow });
  return {
    names,
    ofRow: Int32Array.from(selection.rows, (row) => ofRow[row] as number),
    ofColumn: Int32Array.from(selection.columns, (column) => all[column] as number),
  };
}

/** logsumexp − ln of their number over some of the columns, of some rows; undefined for one, the rows' own. */
async function marginalsAmong(
  engine: Engine,
  { sums, lengths, own, signatures }: ScoredStep,
  rows: readonly number[],
  columns: Int32Array,
  signal: AbortSignal | undefined,
): Promise<Float64Array | undefined> {
  if (columns.length === 1) return undefined;
  const place = new Int32Array(signatures.length).fill(-1);
  columns.forEach((column, at) => {
    place[column] = at;
  });
  const some: RowSelection = {
    rows: Int32Array.from(rows),
    columns,
    own: Int32Array.from(rows, (row) => place[own[row] as number] as number),
    signatures: renumber(columns.map((column) => signatures[column] as number)),
    prompts: columns.length,
    total: rows.length,
    valid: rows.length,
    effectiveRows: rows.length,
  };
  const { stats } = await measure(engine, sums, undefined, lengths, some, signal);
  return stats.marginalSeq;
}

/** What a step's scores came to, as far as its environments need it. */
export interface MeasuredWhole {
  readonly metrics: StepMetrics;
  /** Of each canonical column: equal ones are one prompt. */
  readonly signatures: Int32Array;
}

/**
 * Each environment's figures, as if nothing else were in the batch.
 * @param scores as sums over tokens
 * @param measureScores what measures a batch
 */
export async function scoreEnvironments(
  engine: Engine,
  { metrics, signatures }: MeasuredWhole,
  scores: CheckedScores & { readonly environments: RowEnvironments },
  options: MetricOptions,
  measureScores: (engine: Engine, scores: CheckedScores, options: MetricOptions) => Promise<StepMetrics>,
): Promise<EnvironmentFigures<StepMetrics>[]> {
  const { environments, columns } = scores;
  const ofColumn = environmentOfColumns(columns, environments);
  const rowsOf = rowsByEnvironment(environments);
  const named = namedEnvironments(rowsOf);
  const permutations = sharedPermutations(options.permutations ?? 999, named.size);
  const partOptions = { ...options, permutations, perRow: false, perPrompt: false, state: undefined };
  const found: EnvironmentFigures<StepMetrics>[] = [];
  const { placeholders = [] } = metrics.rows;
  const leftOut = new Set(placeholders);
  for (const [environment, name] of environments.names.entries()) {
    const all = rowsOf[environment] as number[];
    const prompts = indicesOf(ofColumn, (of) => of === environment);
    const about = { name, rows: all.length, prompts: prompts.length };
    if (environments.names.length < 2 || prompts.length < 2 || !named.has(environment)) {
      found.push(about);
      continue;
    }
    const rows = Int32Array.from(leftOut.size === 0 ? all : all.filter((row) => !leftOut.has(row)));
    const part = await partOf(engine, scores, rows, prompts, signatures, options.signal);
    const { spread, ...figures } = await measureScores(engine, part, partOptions);
    found.push({ ...about, figures });
  }
  return found;
}

/** Some rows under some columns, as a batch of its own. @param kept canonical columns, ascending */
async function partOf(
  engine: Engine,
  { given, lengths, columns, hasPromptTokens, trajectories }: CheckedScores,
  rows: Int32Array,
  kept: Int32Array,
  wholeSignatures: Int32Array,
  signal: AbortSignal | undefined,
): Promise<CheckedScores> {
  const tensor: Tensor = await engine.gatherScores(given.tensor, {
    rows,
    columns: kept.map((column) => columns.order[column] as number),
    signal,
  });
  const place = new Int32Array(columns.order.length);
  kept.forEach((column, at) => {
    place[column] = at;
  });
  const signatures = renumber(kept.map((column) => wholeSignatures[column] as number));
  const identity = Int32Array.from(kept.keys());
  // Judged by scores only, all prompts of an environment look equal once it has collapsed to the last bit.
  const areTold = hasPromptTokens || signatures.some((signature) => signature > 0);
  const pick = (values: ArrayLike<number | bigint>) => Array.from(rows, (row) => values[row] as number | bigint);
  return {
    given: { kind: 'sums', tensor },
    shape: { rows: rows.length, columns: kept.length },
    lengths: lengthsOf(lengths, rows),
    columns: {
      order: identity,
      position: identity,
      own: Int32Array.from(rows, (row) => place[columns.own[row] as number] as number),
      signatures: areTold ? signatures : identity,
    },
    hasPromptTokens: true,
    trajectories: trajectories && { episodes: pick(trajectories.episodes), turns: pick(trajectories.turns) },
    isPart: true,
  };
}

function indicesOf(values: Int32Array, fits: (value: number) => boolean): Int32Array {
  const found: number[] = [];
  for (let at = 0; at < values.length; at++) if (fits(values[at] as number)) found.push(at);
  return Int32Array.from(found);
}

/** Rounding does not add up over a million rows. */
class NeumaierSum {
  #sum = 0;
  #lost = 0;

  add(value: number): void {
    const next = this.#sum + value;
    this.#lost += Math.abs(this.#sum) >= Math.abs(value) ? this.#sum - next + value : value - next + this.#sum;
    this.#sum = next;
  }

  get total(): number {
    return this.#sum + this.#lost;
  }
}

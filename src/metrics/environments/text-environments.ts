// Texts of a batch of several environments -> each environment's text figures, as if nothing else were in the batch, and
// the lower bound of I(X;Z|E) that they make.
import { type RowEnvironments, rowsByEnvironment } from '../../checks/row-environments.js';
import type { TextMetrics, TextStep } from '../text-metrics.js';
import { type EnvironmentFigures, namedEnvironments } from './environment-figures.js';

/** What `textMetrics` takes of a step beside its environments. */
export type UnnamedTexts = Omit<TextStep, 'environments'>;

export interface TextEnvironments {
  readonly environments: readonly EnvironmentFigures<TextMetrics>[];
  /** Nats; undefined where no environment has a bound. */
  readonly boundWithin: number | undefined;
}

/**
 * @param promptsUsed of the whole step
 * @param measure what measures a batch; `isNamed` where its figures are given, not only counted
 */
export async function textEnvironments(
  step: UnnamedTexts,
  environments: RowEnvironments,
  promptsUsed: number,
  measure: (step: UnnamedTexts, isNamed: boolean) => Promise<TextMetrics>,
): Promise<TextEnvironments> {
  const rowsOf = rowsByEnvironment(environments);
  const named = namedEnvironments(rowsOf);
  const found: EnvironmentFigures<TextMetrics>[] = [];
  const bounds: { readonly bound: number; readonly prompts: number }[] = [];
  for (const [environment, name] of environments.names.entries()) {
    const rows = rowsOf[environment] as number[];
    const part = partOf(step, rows);
    const isAlone = environments.names.length < 2;
    const prompts = promptsOf(part);
    if (isAlone || prompts < 2) {
      found.push({ name, rows: rows.length, prompts });
      continue;
    }
    const isNamed = named.has(environment);
    const figures = await measure(part, isNamed);
    const { mi_bound: bound, prompts_used: used } = figures.values;
    if (bound !== undefined && used !== undefined) bounds.push({ bound, prompts: used });
    found.push({ name, rows: rows.length, prompts, ...(isNamed && { figures }) });
  }
  const counted = bounds.reduce((sum, { prompts }) => sum + prompts, 0);
  // Prompts of environments without a bound count, with 0: what is left is a lower bound all the same.
  const total = Math.max(promptsUsed, counted);
  const boundWithin =
    bounds.length === 0 ? undefined : bounds.reduce((sum, { bound, prompts }) => sum + (prompts / total) * bound, 0);
  return { environments: found, boundWithin };
}

/** Some rows of a step. */
function partOf(step: UnnamedTexts, rows: readonly number[]): UnnamedTexts {
  const columns = Object.entries(step).map(([name, column]) => [
    name,
    column === undefined ? undefined : rows.map((row) => (column as ArrayLike<unknown>)[row]),
  ]);
  return Object.fromEntries(columns) as UnnamedTexts;
}

/** Different prompts: by group, else by what the prompts say. */
function promptsOf({ groups, prompts, promptTokens }: UnnamedTexts): number {
  const given: ArrayLike<unknown> = groups ?? promptTokens ?? prompts ?? [];
  return new Set(Array.from(given, (one) => (ArrayBuffer.isView(one) || Array.isArray(one) ? String(one) : one))).size;
}

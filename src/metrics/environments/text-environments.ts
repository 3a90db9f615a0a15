// Computes each environment's text figures as if the batch held nothing else, and from them the lower bound of
// I(X;Z|E).
import { type RowEnvironments, rowsByEnvironment } from '../../checks/row-environments.js';
import type { TextRows } from '../../engine/operations/texts/text-rows.js';
import { type EnvironmentFigures, namedEnvironments } from './environment-figures.js';

/** What is needed of a batch's text figures. */
interface TextValues {
  readonly values: Readonly<Record<string, number>>;
}

export interface TextEnvironments<Figures> {
  readonly environments: readonly EnvironmentFigures<Figures>[];
  /** Nats; undefined if no environment has a bound. */
  readonly boundWithin: number | undefined;
}

/**
 * @param step one entry a row in each column
 * @param promptsUsed of the whole step
 * @param measure what measures a batch; `isNamed` where its figures are given, not only counted
 */
export async function textEnvironments<Step extends TextRows, Figures extends TextValues>(
  step: Step,
  environments: RowEnvironments,
  promptsUsed: number,
  measure: (step: Step, isNamed: boolean) => Promise<Figures>,
): Promise<TextEnvironments<Figures>> {
  const rowsOf = rowsByEnvironment(environments);
  const named = namedEnvironments(rowsOf);
  const found: EnvironmentFigures<Figures>[] = [];
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
function partOf<Step extends TextRows>(step: Step, rows: readonly number[]): Step {
  const columns = Object.entries(step).map(([name, column]) => [
    name,
    column === undefined ? undefined : rows.map((row) => (column as ArrayLike<unknown>)[row]),
  ]);
  return Object.fromEntries(columns) as Step;
}

/** Different prompts: by group, else by what the prompts say. */
function promptsOf({ groups, prompts, promptTokens }: TextRows): number {
  const given: ArrayLike<unknown> = groups ?? promptTokens ?? prompts ?? [];
  return new Set(Array.from(given, (one) => (ArrayBuffer.isView(one) || Array.isArray(one) ? String(one) : one))).size;
}

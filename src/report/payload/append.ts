// Appends to a report the steps after its cursor, so that a live page grows without asking again for what it has. After
// days it holds what its server holds: the curves of all steps, and the rest of a limited number.
import { MOST_STEPS, stepsToLetGo, withoutTooMany } from '../collect/let-go.js';
import type { PromptTable, Report, RunData } from '../report.js';
import type { Column } from './byte-planes.js';

/**
 * @param more what was asked for with `report.head.cursor`; its words about the runs are those of now. Where it is a
 *   whole report (the server was restarted), it replaces the other.
 */
export function appended(report: Report, more: Report): Report {
  if (more.head.after !== report.head.cursor) return more;
  const keyOf = ({ head }: RunData): string => `${head.place}\n${head.name}`;
  const before = new Map(report.runs.map((run) => [keyOf(run), run]));
  return {
    head: { ...more.head, after: report.head.after },
    runs: more.runs.map((run) => {
      const known = before.get(keyOf(run));
      return known === undefined ? run : joined(known, run);
    }),
  };
}

function joined(before: RunData, after: RunData): RunData {
  const [old, added] = [before.steps.length, after.steps.length];
  const names = new Set([...Object.keys(before.figures), ...Object.keys(after.figures)]);
  const figures = Object.fromEntries(
    [...names].map((name) => {
      const column = new Float32Array(old + added).fill(Number.NaN);
      column.set(before.figures[name] ?? [], 0);
      column.set(after.figures[name] ?? [], old);
      return [name, column];
    }),
  );
  return {
    head: after.head,
    steps: both(before.steps, after.steps),
    regimes: both(before.regimes, after.regimes),
    figures,
    prompts: withoutTooManySteps(joinedPrompts(before.prompts, after.prompts)),
    matrices: withoutTooMany([...before.matrices, ...after.matrices], MOST_STEPS),
    gradients: withoutTooMany([...before.gradients, ...after.gradients], MOST_STEPS),
    texts: withoutTooMany([...before.texts, ...after.texts]),
  };
}

/** Ids of prompts that are gone go, too: a trainer may never ask one twice. */
function withoutTooManySteps(table: PromptTable | undefined): PromptTable | undefined {
  if (table === undefined) return undefined;
  const gone = new Set(stepsToLetGo([...new Set(table.step)], MOST_STEPS));
  if (gone.size === 0) return table;
  const isKept = (_: number, at: number): boolean => !gone.has(table.step[at] as number);
  const columns = Object.entries(table).map(([name, column]) => [
    name,
    Array.isArray(column) ? column : (column as Float32Array).filter(isKept),
  ]);
  const kept = Object.fromEntries(columns) as PromptTable;
  const places = new Map([...new Set(kept.prompt)].map((place, at) => [place, at]));
  return {
    ...kept,
    ids: [...places.keys()].map((place) => table.ids[place] as string),
    prompt: kept.prompt.map((place) => places.get(place) as number),
  };
}

function both<C extends Column>(before: C, after: C): C {
  const column = new (before.constructor as new (length: number) => C)(before.length + after.length);
  column.set(before, 0);
  column.set(after, before.length);
  return column;
}

function joinedPrompts(before: PromptTable | undefined, after: PromptTable | undefined): PromptTable | undefined {
  if (before === undefined || after === undefined) return before ?? after;
  const [ids, prompt] = translated(before.ids, after.ids, after.prompt);
  const [reasons, reason] = translated(before.reasons, after.reasons, after.reason);
  const [causes, cause] = translated(before.causes, after.causes, after.cause);
  const next: PromptTable = { ...after, prompt, reason, cause };
  const columns = Object.entries(before).map(([name, column]) => [
    name,
    Array.isArray(column) ? column : both(column as Column, next[name as keyof PromptTable] as Column),
  ]);
  return { ...Object.fromEntries(columns), ids, reasons, causes } as PromptTable;
}

/** Words of both, and the places of the later ones among them. */
function translated<C extends Uint32Array | Uint8Array>(
  before: readonly string[],
  after: readonly string[],
  places: C,
): [string[], C] {
  const words = new Map(before.map((word, at) => [word, at]));
  for (const word of after) if (!words.has(word)) words.set(word, words.size);
  return [[...words.keys()], places.map((place) => words.get(after[place] as string) as number) as C];
}

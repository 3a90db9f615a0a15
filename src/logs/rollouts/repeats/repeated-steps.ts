// Steps that are the step before once more: of trainers that write their last rows whenever they log.
import { counted, printable } from '../../../checks/words.js';
import type { RolloutFormat } from '../format.js';

/** What is known of a step that has not been read. */
interface ListedRows {
  readonly step: number;
  readonly run: string;
  readonly runDirectory: string;
  readonly bytes: number;
  readonly parts: readonly { readonly ranges?: unknown }[];
}

/** Columns that say when a row was written. */
export const CLOCK_COLUMNS = /^_?((wall|log)_?)?(step|global_step|time(_?stamp)?|date(_?time)?)$/i;

/** Files looked at side by side. */
const AT_ONCE = 8;

/** Equal rows take as many bytes, but for the number of their step. */
const [SAME_SHARE, SAME_BYTES] = [0.01, 1024];

/**
 * @param steps in the order of their runs
 * @param digestOf of all columns of a step but those that say when; undefined if it cannot be read
 * @param isGrowing whether more may come, so that no count of them stays true
 * @returns the others, and a note a run
 */
export async function leaveOutRepeatedSteps<Step extends ListedRows>(
  steps: readonly Step[],
  formatOf: (step: Step) => RolloutFormat,
  digestOf: (step: Step) => Promise<string | undefined>,
  isGrowing: boolean,
): Promise<{ readonly steps: readonly Step[]; readonly notes: string[] }> {
  const pairs: [before: Step, step: Step][] = [];
  for (const [at, step] of steps.entries()) {
    const before = steps[at - 1];
    if (before === undefined || !isSameRun(before, step) || formatOf(step).byClock === undefined) continue;
    if (mayBeEqual(before, step)) pairs.push([before, step]);
  }
  if (pairs.length === 0) return { steps, notes: [] };
  const digests = new Map<Step, string | undefined>();
  const queue = new Set(pairs.flat()).values();
  const readSome = async () => {
    for (const step of queue) digests.set(step, await digestOf(step));
  };
  await Promise.all(Array.from({ length: AT_ONCE }, readSome));
  const repeated = new Set(
    pairs
      .filter(([before, step]) => digests.get(step) !== undefined && digests.get(step) === digests.get(before))
      .map(([, step]) => step),
  );
  return { steps: steps.filter((step) => !repeated.has(step)), notes: notesOn(steps, repeated, formatOf, isGrowing) };
}

function isSameRun(one: ListedRows, other: ListedRows): boolean {
  return one.runDirectory === other.runDirectory && one.run === other.run;
}

function mayBeEqual(one: ListedRows, other: ListedRows): boolean {
  const isWhole = [one, other].every(({ parts }) => parts.every(({ ranges }) => ranges === undefined));
  const most = Math.max(one.bytes, other.bytes);
  return !isWhole || most - Math.min(one.bytes, other.bytes) <= SAME_SHARE * most + SAME_BYTES;
}

function notesOn<Step extends ListedRows>(
  steps: readonly Step[],
  repeated: ReadonlySet<Step>,
  formatOf: (step: Step) => RolloutFormat,
  isGrowing: boolean,
): string[] {
  const runs = new Map<string, { first: Step; count: number; all: number }>();
  for (const step of steps) {
    const key = `${step.runDirectory}\n${step.run}`;
    const run = runs.get(key) ?? { first: step, count: 0, all: 0 };
    if (repeated.has(step) && run.count++ === 0) run.first = step;
    run.all++;
    runs.set(key, run);
  }
  return [...runs.values()]
    .filter(({ count }) => count > 0)
    .map(({ first, count, all }) => {
      const which = isGrowing ? 'steps' : `${count} of ${counted(all, 'steps')}`;
      const begin = `run ${printable(first.run)}: ${which} whose rows are those of the step before, step ${first.step} first`;
      return `${begin}, are left out: ${formatOf(first).byClock}`;
    });
}

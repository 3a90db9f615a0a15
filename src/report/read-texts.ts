// Reads from texts.parquet what the page shows: rollouts of as many steps of a run as it has room for.
import { textOfRow } from './collect/step-texts.js';
import { readTable } from './read-table.js';
import type { ShownText, StepTexts } from './report.js';

const PLACE = ['run', 'step'];

/**
 * @param chosen of a run's steps with texts, those that are wanted
 * @returns steps of all runs, in the file's order, with how many each run has
 */
export async function readTexts(
  path: string,
  chosen: (run: string, steps: readonly number[]) => ReadonlySet<number>,
): Promise<{
  readonly texts: readonly (readonly [run: string, texts: StepTexts])[];
  readonly counts: ReadonlyMap<string, number>;
}> {
  const steps = new Map<string, number[]>();
  for await (const row of readTable(path, PLACE)) {
    const [run, step] = [String(row.run), Number(row.step)];
    const known = steps.get(run) ?? [];
    steps.set(run, known);
    if (known.at(-1) !== step) known.push(step);
  }
  const wanted = new Map([...steps].map(([run, of]) => [run, chosen(run, of)]));
  const texts: [string, StepTexts & { rollouts: ShownText[] }][] = [];
  for await (const row of readTable(path)) {
    const [run, step] = [String(row.run), Number(row.step)];
    if (!wanted.get(run)?.has(step)) continue;
    const last = texts.at(-1);
    if (last?.[0] === run && last[1].step === step) last[1].rollouts.push(textOfRow(row));
    else texts.push([run, { step, rows: Number(row.rows), rollouts: [textOfRow(row)] }]);
  }
  return { texts, counts: new Map([...steps].map(([run, of]) => [run, of.length])) };
}

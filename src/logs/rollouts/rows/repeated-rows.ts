// Rows of a step that were logged more than once.
import { createHash } from 'node:crypto';
import { counted } from '../../../checks/words.js';
import type { RolloutColumn } from '../columns.js';
import { isSameText, type LoggedText } from '../logged-text.js';
import type { StepRows } from './step-rows.js';
import { hashValue } from './value-digest.js';

/**
 * Leaves out what was logged before: samples by their ids. Without ids equal rows may be different samples that say the
 * same; only if all rows come equally often, the step was logged that many times.
 * @returns number of rows left out
 */
export function leaveOutRepeats(rows: StepRows, notes: string[]): number {
  const samples = rows.column<string>('sample');
  if (samples?.some((sample) => sample !== undefined)) return leaveOutSamples(rows, samples, notes);
  const { kept, times } = timesLogged(rows);
  if (times === 1) return 0;
  const repeats = rows.rows - kept.length;
  rows.keep(kept);
  notes.push(`every row of the step is there ${times} times: it was logged ${times} times, and each row counts once`);
  return repeats;
}

/** A trainer that is taken back to a checkpoint logs samples again. */
function leaveOutSamples(rows: StepRows, samples: readonly (string | undefined)[], notes: string[]): number {
  const [turns, outputs, tokens] = [
    rows.column<number>('turn'),
    rows.column<LoggedText>('output'),
    rows.column<Int32Array>('tokens'),
  ];
  const seen = new Map<string, number[]>();
  const kept: number[] = [];
  let others = 0;
  for (let row = 0; row < rows.rows; row++) {
    const sample = samples[row];
    if (sample !== undefined) {
      const key = `${turns?.[row]}\n${sample}`;
      const before = seen.get(key);
      const isRepeat = before?.some(
        (one) => isSameText(outputs?.[one], outputs?.[row]) && sameTokens(tokens?.[one], tokens?.[row]),
      );
      if (isRepeat) continue;
      if (before === undefined) seen.set(key, [row]);
      else {
        before.push(row);
        others++;
      }
    }
    kept.push(row);
  }
  const repeats = rows.rows - kept.length;
  if (repeats > 0) {
    rows.keep(kept);
    notes.push(`${counted(repeats, 'rows')} repeat a sample that was logged before: each is counted once`);
  }
  if (others > 0) notes.push(`${counted(others, 'rows')} have a sample id that another row has, with another response`);
  return repeats;
}

function sameTokens(one: Int32Array | undefined, other: Int32Array | undefined): boolean {
  if (one === undefined || other === undefined) return one === other;
  return one.length === other.length && one.every((token, at) => token === other[at]);
}

/** How often each row comes where all come equally often and some prompt has two that differ; else 1. */
function timesLogged(rows: StepRows): { readonly kept: readonly number[]; readonly times: number } {
  const once = { kept: [], times: 1 };
  const columns = rows.names
    .filter((name) => name !== 'step' && name !== 'run' && !(name === 'group' && rows.groupIsLine))
    .map((name) => rows.column<unknown>(name) as readonly unknown[]);
  const digestOf = (row: number): string => {
    const hash = createHash('sha256');
    for (const column of columns) hashValue(hash, column[row]);
    return hash.digest('base64');
  };
  if (rows.rows < 4 || !hasTwin(rows, 0)) return once;
  /** By digest: the first row, and how many there are. */
  const seen = new Map<string, { readonly row: number; times: number }>();
  for (let row = 0; row < rows.rows; row++) {
    const digest = digestOf(row);
    const before = seen.get(digest);
    if (before === undefined) seen.set(digest, { row, times: 1 });
    else before.times++;
  }
  const all = [...seen.values()];
  const times = all[0]?.times ?? 1;
  if (times === 1 || all.some((one) => one.times !== times)) return once;
  const kept = all.map(({ row }) => row);
  return hasDistinctRows(rows, kept) ? { kept, times } : once;
}

/** A quick look, as nearly all logs have none: whether another row has its response, or reward if there is none. */
function hasTwin(rows: StepRows, row: number): boolean {
  const outputs = rows.column<LoggedText>('output') ?? rows.column<LoggedText>('reasoning');
  if (outputs === undefined) return true;
  return outputs.some((output, other) => other !== row && isSameText(output, outputs[row]));
}

/** Whether two of these rows are of one prompt: else each prompt may have but one thing to say. */
function hasDistinctRows(rows: StepRows, kept: readonly number[]): boolean {
  const prompts = (['group', 'prompt', 'promptTokens'] satisfies RolloutColumn[])
    .map((name) => (name === 'group' && rows.groupIsLine ? undefined : rows.column<unknown>(name)))
    .find((column) => column?.every((value) => value !== undefined));
  if (prompts === undefined) return false;
  const seen = new Set<string>();
  for (const row of kept) {
    const hash = createHash('sha256');
    hashValue(hash, prompts[row]);
    const prompt = hash.digest('base64');
    if (seen.has(prompt)) return true;
    seen.add(prompt);
  }
  return false;
}

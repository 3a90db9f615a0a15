// Labels of rows -> the environments that a batch mixes: their names, and which row is of which.

import { checkArray } from './argument-checks.js';
import { ArgumentError } from './errors.js';
import { counted, printable, shown } from './words.js';

/** Environments of a step's rows. */
export interface RowEnvironments {
  /** Ascending by code units, each once: their order does not depend on that of the rows. */
  readonly names: readonly string[];
  /** [R] index into `names`. */
  readonly ofRow: Int32Array;
}

/** One label a row. */
export type EnvironmentLabels = readonly (string | null | undefined)[];

/** What rows without a label are called among labelled ones. */
export const UNLABELLED = '(none)';

/**
 * @param labels one a row; null and undefined are rows without a label
 * @param rows how many there must be
 * @returns undefined where no row has a label: the batch is one environment without a name
 * @throws {ArgumentError} naming `argument` for labels of another number or kind
 */
export function rowEnvironments(
  labels: EnvironmentLabels,
  rows: number = labels.length,
  argument = 'environments',
): RowEnvironments | undefined {
  checkArray(labels, argument);
  if (labels.length !== rows) {
    throw new ArgumentError(argument, `${counted(labels.length, 'labels')} for ${counted(rows, 'rows')}`);
  }
  const found = new Set<string>();
  let isLabelled = false;
  for (let row = 0; row < rows; row++) {
    const label: unknown = labels[row];
    if (label !== null && label !== undefined && typeof label !== 'string') {
      throw new ArgumentError(
        argument,
        `entry ${row} is ${shown(label)}, expected the name of an environment, or null for a row without one`,
      );
    }
    isLabelled ||= typeof label === 'string';
    found.add(label ?? UNLABELLED);
  }
  if (!isLabelled) return undefined;
  const names = [...found].sort((a, b) => (a < b ? -1 : 1));
  const index = new Map(names.map((name, at) => [name, at]));
  return { names, ofRow: Int32Array.from(labels, (label) => index.get(label ?? UNLABELLED) as number) };
}

/**
 * A prompt is of one environment.
 * @param groups [R] what names the prompt of each row
 * @throws {ArgumentError} that names the prompt and both of its environments
 */
export function checkOneEnvironmentEach(
  { names, ofRow }: RowEnvironments,
  groups: ArrayLike<number | bigint | string>,
  argument = 'environments',
): void {
  const known = new Map<string, number>();
  let last: number | bigint | string | undefined;
  let lastOne = -1;
  for (let row = 0; row < ofRow.length; row++) {
    const group = groups[row] as number | bigint | string;
    const environment = ofRow[row] as number;
    // Rows of one prompt mostly stand together.
    if (group === last && environment === lastOne) continue;
    [last, lastOne] = [group, environment];
    // As text, 1 and 1n are one id.
    const before = known.get(String(group));
    if (before === undefined) known.set(String(group), environment);
    else if (before !== environment) {
      const [one, other] = [before, environment].map((at) => JSON.stringify(printable(names[at] as string)));
      throw new ArgumentError(
        argument,
        `prompt ${printable(String(group))} is of environment ${one} in one row and of ${other} in row ${row}: ` +
          'a prompt has one environment; give prompts of different environments different group ids',
      );
    }
  }
}

/** Some rows of a step; undefined where they are of one environment only. @param rows indices, each in range */
export function environmentsOf(
  { names, ofRow }: RowEnvironments,
  rows: ArrayLike<number>,
): RowEnvironments | undefined {
  const used = new Set<number>();
  for (let at = 0; at < rows.length; at++) used.add(ofRow[rows[at] as number] as number);
  if (used.size < 2) return undefined;
  const kept = [...used].sort((a, b) => a - b);
  const renumbered = new Map(kept.map((old, at) => [old, at]));
  return {
    names: kept.map((at) => names[at] as string),
    ofRow: Int32Array.from(rows, (row) => renumbered.get(ofRow[row] as number) as number),
  };
}

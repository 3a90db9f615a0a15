// Finds the environments that a batch mixes from the labels of its rows: their names, and the environment of each row.

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
 * @returns undefined if no row has a label: the batch is one environment without a name
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
    // Rows of one prompt are mostly adjacent.
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

/**
 * What a caller gives, looked at.
 * @param groups [R] what names the prompt of each row
 * @throws {ArgumentError} naming `argument` for labels that do not fit the rows, or a prompt of two environments
 */
export function givenEnvironments(
  given: EnvironmentLabels | RowEnvironments | undefined,
  groups: ArrayLike<number | bigint | string>,
  argument: string,
): RowEnvironments | undefined {
  if (given === undefined) return undefined;
  const found = isNamed(given) ? given : rowEnvironments(given, groups.length, argument);
  if (found === undefined) return undefined;
  if (found.ofRow.length !== groups.length) {
    const problem = `${counted(found.ofRow.length, 'labels')} for ${counted(groups.length, 'rows')}`;
    throw new ArgumentError(argument, problem);
  }
  checkOneEnvironmentEach(found, groups, argument);
  return found;
}

function isNamed(given: EnvironmentLabels | RowEnvironments): given is RowEnvironments {
  return given !== null && typeof given === 'object' && 'names' in given && 'ofRow' in given;
}

/** Indices of the rows of each environment, in the order of `names`. */
export function rowsByEnvironment({ names, ofRow }: RowEnvironments): number[][] {
  const rows = names.map((): number[] => []);
  for (let row = 0; row < ofRow.length; row++) rows[ofRow[row] as number]?.push(row);
  return rows;
}

/** Some of the rows, and the names that these have. */
export function pickRows({ names, ofRow }: RowEnvironments, rows: readonly number[]): RowEnvironments {
  const kept = [...new Set(rows.map((row) => ofRow[row] as number))].sort((a, b) => a - b);
  const renumbered = new Map(kept.map((old, at) => [old, at]));
  return {
    names: kept.map((at) => names[at] as string),
    ofRow: Int32Array.from(rows, (row) => renumbered.get(ofRow[row] as number) as number),
  };
}

// The environments of a step file's rows: ids in a tensor and their names among the metadata, or one name for all rows.
import { ArgumentError } from '../../checks/errors.js';
import { checkOneEnvironmentEach, type RowEnvironments, rowEnvironments } from '../../checks/row-environments.js';
import { printable } from '../../checks/words.js';
import type { StoredIntegers } from './step-data.js';

/** Key of the metadata: a list in JSON, with the name of id i at place i. */
export const ENVIRONMENT_NAMES = 'environment_names';

/** Id of rows without a label. */
const NONE = -1;

/** Reports a problem with a row's id, or (undefined) with all of them; must throw. */
export type EnvironmentFailure = (row: number | undefined, problem: string) => never;

/**
 * @param ids [R] the tensor `environment`, where the file has it
 * @param group [R]
 * @returns undefined if no row is named one
 */
export function storedEnvironments(
  ids: StoredIntegers | undefined,
  group: StoredIntegers,
  metadata: ReadonlyMap<string, string>,
  fail: EnvironmentFailure,
): RowEnvironments | undefined {
  if (ids === undefined) {
    const name = metadata.get('environment');
    return name === undefined || group.length === 0 ? undefined : rowEnvironments(Array(group.length).fill(name));
  }
  const names = namesIn(metadata.get(ENVIRONMENT_NAMES), fail);
  const known = new Map<number | bigint, string | null>();
  const labels: (string | null)[] = [];
  for (let row = 0; row < ids.length; row++) {
    const id = ids[row] as number | bigint;
    let label = known.get(id);
    if (label === undefined) {
      label = Number(id) === NONE ? null : names === undefined ? String(id) : (names[Number(id)] ?? undefined);
      if (label === undefined) {
        fail(
          row,
          `${id} in row ${row}, expected ${NONE} (none) to ${(names?.length ?? 0) - 1}, of ${ENVIRONMENT_NAMES}`,
        );
      }
      known.set(id, label);
    }
    labels.push(label);
  }
  const found = rowEnvironments(labels);
  try {
    if (found !== undefined) checkOneEnvironmentEach(found, group);
  } catch (error) {
    if (!(error instanceof ArgumentError)) throw error;
    fail(undefined, error.problem);
  }
  return found;
}

/** As a file has them. @returns ids [R], and the metadata that name them */
export function environmentIds({ names, ofRow }: RowEnvironments): { ids: Int32Array; names: string } {
  return { ids: ofRow, names: JSON.stringify(names) };
}

function namesIn(text: string | undefined, fail: EnvironmentFailure): readonly string[] | undefined {
  if (text === undefined) return undefined;
  let names: unknown;
  try {
    names = JSON.parse(text);
  } catch {
    names = undefined;
  }
  if (Array.isArray(names) && names.every((name) => typeof name === 'string')) return names;
  const came = printable(text.slice(0, 80));
  return fail(undefined, `${ENVIRONMENT_NAMES} is ${came}, expected a list of names in JSON, such as ["math", "code"]`);
}

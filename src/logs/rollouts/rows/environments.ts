// Finds the environment of a row's prompt: among the names that trainers give it, or in the column that the user names.
// Each prompt has at most one.
import { FileError } from '../../../checks/errors.js';
import { printable } from '../../../checks/words.js';
import { type Fields, fieldsOf } from '../fields.js';
import type { RolloutFormat } from '../format.js';

/** The likeliest first. */
const NAMES = ['env', 'env_name', 'env_id'] as const;

/** Columns that say it in tables which have columns of any name. */
export const ENVIRONMENT_COLUMNS = ['environment', 'data_source'] as const;

/** How much of a name or a prompt a message shows. */
const SHOWN = 60;

/** A name as logs write it: text, a number, an object with a name or an id, or a list of names. */
export function environmentName(value: unknown): string | undefined {
  if (typeof value === 'string') return value === '' ? undefined : value;
  if (typeof value === 'number' || typeof value === 'bigint' || typeof value === 'boolean') return String(value);
  if (Array.isArray(value)) {
    const names = value.map(environmentName).filter((name) => name !== undefined);
    return names.length === 0 ? undefined : names.join('/');
  }
  if (typeof value !== 'object' || value === null) return undefined;
  const { name, id } = value as { name?: unknown; id?: unknown };
  return environmentName(name) ?? environmentName(id);
}

/** The first that is there of the usual names, in each of the places in turn. */
export function environmentIn(...places: readonly (Fields | undefined)[]): string | undefined {
  for (const place of places) {
    for (const name of NAMES) {
      const found = place && environmentName(place.value(name));
      if (found !== undefined) return found;
    }
  }
  return undefined;
}

/** Of the task, where nothing names an environment: a name, or an object that has one or at least a kind. */
export function taskEnvironment(line: Fields): string | undefined {
  const task = objectIn(line, 'task');
  if (task === undefined) return environmentName(line.value('task'));
  return environmentIn(task) ?? environmentName(task.value('type'));
}

/** An object, also where it is written as JSON in a string; undefined for anything else. */
export function objectIn(line: Fields, name: string): Fields | undefined {
  let value = line.value(name);
  if (typeof value === 'string' && value.startsWith('{')) {
    try {
      value = JSON.parse(value);
    } catch {
      return undefined;
    }
  }
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? fieldsOf(value, name) : undefined;
}

/** The same reader, which takes the environment from this column. */
export function withEnvironment(format: RolloutFormat, column: string): RolloutFormat {
  return {
    ...format,
    fields: [...new Set([...format.fields, column])],
    ...(format.columnsOf && {
      columnsOf: (columns) => format.columnsOf?.(columns).filter((name) => name !== column) ?? [],
    }),
    rows: (line, context) => {
      const rows = format.rows(line, { ...context, environment: column });
      const value = line.value(column);
      // Lines that hold several rows have a list of as many, where it is not of all of them.
      const isEach = Array.isArray(value) && value.length === rows.length;
      return rows.map((row, at) => {
        const environment = environmentName(isEach ? value[at] : value);
        const { environment: _, ...rest } = row;
        return environment === undefined ? rest : { ...rest, environment };
      });
    },
  };
}

/**
 * The environment of each row: that of its prompt. A row without a label has that of its prompt's other rows.
 * @param labels [R] as the log has them
 * @param groups [R] prompt of each row, and what prompts are called; undefined if nothing distinguishes them
 * @throws {FileError} if the rows of a prompt name two
 */
export function promptEnvironments(
  labels: readonly (string | undefined)[],
  groups: { readonly group: Int32Array; readonly ids: readonly string[] } | undefined,
  path: string,
): readonly (string | undefined)[] {
  if (groups === undefined) return labels;
  const { group, ids } = groups;
  const known: (string | undefined)[] = new Array(ids.length).fill(undefined);
  for (const [row, label] of labels.entries()) {
    if (label === undefined) continue;
    const prompt = group[row] as number;
    const before = known[prompt];
    if (before !== undefined && before !== label) {
      const [one, other, id] = [before, label, ids[prompt] ?? ''].map((text) => printable(text.slice(0, SHOWN)));
      const problem = `prompt "${id}" is of two environments, "${one}" and "${other}": a prompt has one; give them different group ids, or correct the label`;
      throw new FileError({ path }, problem);
    }
    known[prompt] = label;
  }
  return Array.from(group, (prompt) => known[prompt]);
}

// Logs of trainers for the tests of src/logs/rollouts, written by hand as the trainers' sources write them.
import { mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import type { FileError } from '../../../src/checks/errors.js';
import { type ReadRolloutsOptions, type RolloutStep, readRollouts } from '../../../src/exports/logs.js';

/** Writes files below `directory`: values are texts, bytes, or the objects of JSON lines. */
export function putLogs(directory: string, files: Record<string, string | Uint8Array | readonly unknown[]>): string {
  for (const [name, content] of Object.entries(files)) {
    const path = join(directory, name);
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, Array.isArray(content) ? jsonLines(content) : (content as string | Uint8Array));
  }
  return directory;
}

export function jsonLines(rows: readonly unknown[]): string {
  return rows.map((row) => `${typeof row === 'string' ? row : JSON.stringify(row)}\n`).join('');
}

export interface Read {
  readonly steps: RolloutStep[];
  readonly errors: FileError[];
  readonly notes: string[];
}

export async function readAll(source: string | string[], options: ReadRolloutsOptions = {}): Promise<Read> {
  const found: Read = { steps: [], errors: [], notes: [] };
  const given = {
    onError: (error: FileError) => found.errors.push(error),
    onNote: (note: string) => found.notes.push(note),
  };
  for await (const step of readRollouts(source, { ...given, ...options })) found.steps.push(step);
  return found;
}

/** The only step of a log that has nothing wrong. */
export async function readOne(source: string | string[], options: ReadRolloutsOptions = {}): Promise<RolloutStep> {
  const { steps, errors } = await readAll(source, options);
  if (errors.length > 0) throw errors[0];
  if (steps.length !== 1) throw new Error(`${steps.length} steps`);
  return steps[0] as RolloutStep;
}

// A file's failure -> plain data, and back: what manifests and states keep of files that could not be used.
import { FileError } from '../../checks/errors.js';
import { isCount } from '../../checks/is-count.js';
import { nameOf } from '../../logs/stores/store.js';
import type { PlannedStep } from './manifest.js';

/** A failure without its path, which whoever reads it knows. */
export interface SavedProblem {
  readonly problem: string;
  readonly tensor?: string;
  readonly offset?: number;
  /** Name of the file beside the step's that failed; only in states, and only where it is not the step's own. */
  readonly sidecar?: string;
}

/** The failure's message begins with where it is. */
export function savedProblem({ path, tensor, offset, message }: FileError): SavedProblem {
  const where = { ...(tensor !== undefined && { tensor }), ...(offset !== undefined && { offset }) };
  const prefix = new FileError({ path, ...where }, '').message;
  return { problem: message.startsWith(prefix) ? message.slice(prefix.length) : message, ...where };
}

/** @returns undefined for what `savedProblem` does not give */
export function problemAt(path: string, saved: unknown): FileError | undefined {
  const { problem, tensor, offset } = (saved ?? {}) as Partial<Record<keyof SavedProblem, unknown>>;
  if (typeof problem !== 'string') return undefined;
  if (tensor !== undefined && typeof tensor !== 'string') return undefined;
  if (offset !== undefined && !isCount(offset)) return undefined;
  return new FileError(
    { path, ...(tensor !== undefined && { tensor }), ...(offset !== undefined && { offset }) },
    problem,
  );
}

/**
 * Of a failure in a file beside the step's (NAME.lengths.npy): that file's name; undefined where the step's own failed.
 */
export function sidecarOf({ path }: FileError, step: PlannedStep): string | undefined {
  const name = nameOf(path);
  return path !== step.path && path === beside(step.path, name) ? name : undefined;
}

/** The path of what failed, as the user gave that of the step: a message must name the file that is wrong. */
export function failedPath({ file }: PlannedStep, sidecar: string | undefined): string {
  return sidecar === undefined ? file : beside(file, sidecar);
}

function beside(path: string, name: string): string {
  return path.slice(0, path.length - nameOf(path).length) + name;
}

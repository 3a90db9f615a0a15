// A file's failure -> plain data, and back: what manifests and states keep of files that could not be used.
import { FileError } from '../../checks/errors.js';
import { count, fields, optional, type Shaped, text } from '../../checks/saved.js';
import { nameOf } from '../../logs/stores/store.js';
import type { PlannedStep } from './manifest.js';

/** A failure without its path, which the reader knows. */
export const savedProblemShape = fields({
  problem: text,
  tensor: optional(text),
  offset: optional(count),
  /** Name of the file beside the step's that failed; only in states, and only where it is not the step's own. */
  sidecar: optional(text),
});
export type SavedProblem = Readonly<Shaped<typeof savedProblemShape>>;

/** The failure's message begins with where it is. */
export function savedProblem({ path, tensor, offset, message }: FileError): SavedProblem {
  const where = { ...(tensor !== undefined && { tensor }), ...(offset !== undefined && { offset }) };
  const prefix = new FileError({ path, ...where }, '').message;
  return { problem: message.startsWith(prefix) ? message.slice(prefix.length) : message, ...where };
}

export function problemAt(path: string, { problem, sidecar: _, ...where }: SavedProblem): FileError {
  return new FileError({ path, ...where }, problem);
}

/**
 * Names the file beside the step's (NAME.lengths.npy) that failed; undefined where the step's own failed.
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

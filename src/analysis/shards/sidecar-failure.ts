// A failure of a step that lies in a file beside it (NAME.lengths.npy) -> that file's name, and back: where the step is opened
// from is not the path that the user gave, and a message must name the file that is wrong.
import type { FileError } from '../../checks/errors.js';
import { nameOf } from '../../logs/stores/store.js';
import type { PlannedStep } from './manifest.js';

/** @returns undefined where the step's own file failed */
export function sidecarOf({ path }: FileError, step: PlannedStep): string | undefined {
  const name = nameOf(path);
  return path !== step.path && path === beside(step.path, name) ? name : undefined;
}

/** The path of what failed, as the user gave that of the step. */
export function failedPath({ file }: PlannedStep, sidecar: string | undefined): string {
  return sidecar === undefined ? file : beside(file, sidecar);
}

function beside(path: string, name: string): string {
  return path.slice(0, path.length - nameOf(path).length) + name;
}

// A file that is sound and no step: what trainers keep in the folder of a run beside step files, such as weights and
// the states of optimizers and random numbers.
import { FileError } from '../../checks/errors.js';
import { STEP_TENSORS } from './step-layout.js';

/** The error of a file that opens without a fault and has neither a step's tensors nor the number of a step. */
export class NoStepError extends FileError {}

/** Whether nothing in it is of a step. A damaged step has something left. */
export function hasNothingOfStep(
  tensors: ReadonlyMap<string, unknown>,
  metadata: ReadonlyMap<string, string>,
): boolean {
  return !metadata.has('step') && STEP_TENSORS.every((name) => !tensors.has(name));
}

// Refuses sums that are not log-probs: an engine that computed none leaves the same value for all prompts.

import { FileError } from '../../checks/errors.js';
import type { HostTensor } from '../../engine/tensor/tensor.js';
import type { StepData } from '../../logs/steps/step-data.js';
import { arrangeColumns } from '../../metrics/columns.js';

/**
 * Looks at every row with reasoning, whether or not a sampler draws it.
 * @param sums [R, P], columns in the file's order
 * @throws {FileError} naming the first row with one score for all of at least two different prompts
 */
export function refusePlaceholders(step: StepData, sums: HostTensor): void {
  const { file, lengths, group, columnGroup, prompts, scores } = step;
  const [rows, columns] = sums.shape as [number, number];
  const row = lengths.findIndex((length: number | bigint, at: number) => {
    const first = Number(sums.data[at * columns]);
    if (length <= 0 || !Number.isFinite(first)) return false;
    for (let column = 1; column < columns; column++) if (sums.data[at * columns + column] !== first) return false;
    return true;
  });
  if (row === -1 || rows === 0) return;
  const { signatures } = arrangeColumns(group, columnGroup, prompts);
  if (new Set(signatures).size < 2) return;
  const [tensor, offset] =
    scores.kind === 'sums'
      ? (['cross_logprob_sums', scores.offsetOf(row, 0)] as const)
      : (['cross_logprobs', scores.offsetOf(0, row, 0)] as const);
  throw new FileError(
    { path: file, tensor, offset },
    `the score of row ${row} is ${sums.data[row * columns]} under every prompt, which no log-probs are (a placeholder?): correct ` +
      "what writes it, or leave such rows out with placeholders: 'exclude' (--placeholders exclude)",
  );
}

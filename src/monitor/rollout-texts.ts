// Measures the text figures of a step's rows: for a trainer that computes no scores, or none at this step.
import { checkKnown } from '../checks/argument-checks.js';
import { ArgumentError } from '../checks/errors.js';
import { optionsObject } from '../checks/options.js';
import { pickRows as pickLabels } from '../checks/row-environments.js';
import type { Engine } from '../engine/engine.js';
import { TEXT_COLUMNS } from '../engine/operations/texts/text-rows.js';
import { LOG_COLUMN_NAMES } from '../metrics/figures/log-columns.js';
import type { TextStep } from '../metrics/text-metrics.js';
import { firstTurns } from '../step/first-turns.js';
import { type MeasuredTexts, measureTexts, pickRows, writtenRows } from '../step/measured-texts.js';
import type { OpenLabels } from './outcomes/step-labels.js';

/**
 * One entry a row, [R], in the order of `groups`: `texts` (the reasoning, or all that was sampled) or `tokens`, and
 * what else is known.
 */
export type RolloutRows = Omit<TextStep, 'groups' | 'environments'>;

const FIELDS = [...TEXT_COLUMNS.filter((name) => name !== 'groups'), ...LOG_COLUMN_NAMES];

/** @throws {ArgumentError} (as a rejection) for rows that do not fit the labels; `signal.reason` when aborted */
export async function rolloutTexts(
  engine: Engine,
  given: RolloutRows,
  { rows, groups, episodes, turns, environments }: OpenLabels,
  options: { readonly permutations: number; readonly seed: number; readonly perPrompt: boolean },
  signal: AbortSignal | undefined,
): Promise<MeasuredTexts> {
  // Turns of no episode say nothing of what is drawn by itself.
  const kept = firstTurns({ rows, groups, episodes, turns: episodes && turns });
  const named = environments && pickLabels(environments, kept);
  const step: TextStep = { ...pickRows({ ...given, groups }, kept), environments: named };
  const written = writtenRows(given, {
    group: (row) => String(groups[row]),
    // Not known before the step ends.
    reward: () => undefined,
    number: () => undefined,
  });
  return measureTexts(engine, step, kept, written, { ...options, placesBytes: false }, signal);
}

/** @throws {ArgumentError} naming what is unknown, or has another number of rows */
export function checkRollouts(given: RolloutRows, { rows }: OpenLabels): void {
  checkKnown(optionsObject(given, 'rollouts'), 'rollouts', FIELDS);
  for (const [name, column] of Object.entries(given)) {
    const length = (column as ArrayLike<unknown> | undefined)?.length;
    if (column === undefined || length === rows) continue;
    throw new ArgumentError(`rollouts.${name}`, `${length} entries for the ${rows} rows of the step`);
  }
  if ((given.texts === undefined) === (given.tokens === undefined)) {
    throw new ArgumentError('rollouts', 'expected texts or tokens, one of the two');
  }
}

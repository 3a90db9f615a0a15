// The texts of a step's rows -> its text figures: what a trainer that scores nothing, or not at this step, has at hand.
import { checkKnown, optionNames } from '../checks/argument-checks.js';
import { ArgumentError } from '../checks/errors.js';
import { optionsObject } from '../checks/options.js';
import { pickRows } from '../checks/row-environments.js';
import type { Engine } from '../engine/engine.js';
import type { RowReading } from '../engine/operations/texts/row-readings.js';
import type { Text } from '../engine/operations/texts/text-rows.js';
import { type TextStep, textMetrics } from '../metrics/text-metrics.js';
import type { MeasuredTexts } from './first-texts.js';
import type { OpenLabels } from './outcomes/step-labels.js';
import { excerptsOf, joinedIds, READINGS, type RowTexts } from './prompts/excerpts.js';

/**
 * One entry a row, [R], in the order of `groups`: `texts` (the reasoning, or all that was sampled) or `tokens`, and
 * what else is known.
 */
export type RolloutRows = Omit<TextStep, 'groups' | 'environments'>;

const FIELDS = optionNames<RolloutRows>({
  texts: true,
  tokens: true,
  prompts: true,
  promptTokens: true,
  samples: true,
  truncated: true,
  logprobs: true,
  entropies: true,
});

/** @throws {ArgumentError} (as a rejection) for rows that do not fit the labels; `signal.reason` when aborted */
export async function rolloutTexts(
  engine: Engine,
  given: RolloutRows,
  labels: OpenLabels,
  options: { readonly permutations: number; readonly seed: number; readonly perPrompt: boolean },
  signal: AbortSignal | undefined,
): Promise<MeasuredTexts> {
  const { kept, ...rows } = onlyFirstTurns(given, labels);
  const step: TextStep = { ...rows, environments: labels.environments && pickRows(labels.environments, kept) };
  const { texts, tokens, groups } = step;
  const readings = options.perPrompt ? READINGS : undefined;
  const { perPrompt, readings: read, ...figures } = await textMetrics(engine, step, { ...options, readings, signal });
  const excerpts = options.perPrompt ? excerptsOf(kept, read?.map(inString(step)), rowTexts(given, labels)) : undefined;
  return { figures, perPrompt, excerpts, rows: { texts, tokens, groups } };
}

function rowTexts({ texts, tokens, prompts, promptTokens }: RolloutRows, { groups }: OpenLabels): RowTexts {
  return {
    group: (row) => String(groups[row]),
    reasoning: (row) => (tokens === undefined ? textOf(texts?.[row] ?? '') : joinedIds(tokens[row])),
    prompt: (row) => {
      const [prompt, ids] = [prompts?.[row], promptTokens?.[row]];
      return prompt ? textOf(prompt) : ids ? joinedIds(ids) : undefined;
    },
    reward: () => undefined,
    number: () => undefined,
  };
}

const textOf = (text: Text): string => (typeof text === 'string' ? text : Buffer.from(text).toString());

/** Places in bytes are none in a string: such a row is shown without them. */
const inString =
  ({ texts }: TextStep) =>
  (reading: RowReading): RowReading =>
    texts === undefined || typeof texts[reading.row] === 'string' ? reading : { ...reading, nats: new Float64Array() };

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

/** Rows must be independent draws given their prompt: of an episode of several turns, the first one counts. */
function onlyFirstTurns(
  given: RolloutRows,
  { rows, groups, episodes, turns }: OpenLabels,
): TextStep & { readonly kept: readonly number[] } {
  const groupOf = (row: number) => groups[row] as number | bigint;
  if (episodes === undefined || turns === undefined) {
    const kept = Array.from({ length: rows }, (_, row) => row);
    return { ...given, groups: kept.map(groupOf), kept };
  }
  const first = new Map<string, number>();
  const keyOf = (row: number): string => `${groupOf(row)} ${episodes[row]}`;
  for (let row = 0; row < rows; row++) {
    const least = first.get(keyOf(row));
    if (least === undefined || (turns[row] as number) < (turns[least] as number)) first.set(keyOf(row), row);
  }
  const kept = [...first.values()];
  const columns = Object.entries(given).map(([name, column]) => [
    name,
    column && kept.map((row) => (column as never)[row]),
  ]);
  return { ...(Object.fromEntries(columns) as RolloutRows), groups: kept.map(groupOf), kept };
}
